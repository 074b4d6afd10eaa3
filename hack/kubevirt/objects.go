// Writes what KubeVirt's own operator would install: its kinds, roles, webhooks and aggregated API as one List, and the
// certificates of its parts. All of it comes out of KubeVirt's code, for the version that this is built with.
//
//	objects FOLDER PORT      objects.json, ca.crt and NAME.crt, NAME.key in FOLDER; virt-api is reached at PORT of loopback
package main

import (
	"crypto/tls"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/kubevirt/pkg/certificates/triple"
	"kubevirt.io/kubevirt/pkg/certificates/triple/cert"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

const (
	namespace = "kubevirt"
	year      = 365 * 24 * time.Hour
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	folder, port := os.Args[1], int32(must(strconv.ParseInt(os.Args[2], 10, 32)))
	authority := newAuthority()
	pem := cert.EncodeCertPEM(authority.Leaf)
	must(0, os.WriteFile(filepath.Join(folder, "ca.crt"), pem, 0o600))
	certificates(folder, authority)

	var all []any
	all = append(all, kinds()...)
	all = append(all, roles()...)
	all = append(all, trust(string(pem))...)
	all = append(all, webhooks(port, pem)...)
	all = append(all, aggregated(port, pem)...)
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": all}
	text := must(json.Marshal(list))
	must(0, os.WriteFile(filepath.Join(folder, "objects.json"), text, 0o600))
}

func newAuthority() *tls.Certificate {
	pair := must(triple.NewCA("kubevirt.io", year))
	return &tls.Certificate{Leaf: pair.Cert, PrivateKey: pair.Key}
}

func certificates(folder string, authority *tls.Certificate) {
	wanted := map[string]string{
		components.VirtApiCertSecretName:           "virt-api",
		components.VirtControllerCertSecretName:    "virt-controller",
		components.VirtHandlerServerCertSecretName: "virt-handler",
		components.VirtHandlerCertSecretName:       "virt-handler-client",
	}
	for _, secret := range components.NewCertSecrets(namespace, namespace) {
		name, found := wanted[secret.Name]
		if !found {
			continue
		}
		must(0, components.PopulateSecretWithCertificate(secret, authority, &meta.Duration{Duration: year}))
		for key, file := range map[string]string{"tls.crt": ".crt", "tls.key": ".key"} {
			must(0, os.WriteFile(filepath.Join(folder, name+file), secret.Data[key], 0o600))
		}
	}
}

func kinds() (all []any) {
	makers := []func() (*extensions.CustomResourceDefinition, error){
		components.NewVirtualMachineInstanceCrd, components.NewPresetCrd, components.NewReplicaSetCrd,
		components.NewVirtualMachineCrd, components.NewVirtualMachineInstanceMigrationCrd, components.NewKubeVirtCrd,
		components.NewVirtualMachineSnapshotCrd, components.NewVirtualMachineSnapshotContentCrd,
		components.NewVirtualMachineRestoreCrd, components.NewVirtualMachineInstancetypeCrd,
		components.NewVirtualMachineClusterInstancetypeCrd, components.NewVirtualMachinePoolCrd,
		components.NewMigrationPolicyCrd, components.NewVirtualMachinePreferenceCrd,
		components.NewVirtualMachineClusterPreferenceCrd, components.NewVirtualMachineExportCrd,
		components.NewVirtualMachineCloneCrd,
	}
	for _, maker := range makers {
		kind := must(maker())
		// The operator's own function leaves it to whoever writes the object; an API server refuses a null there.
		kind.Status.Conditions, kind.Status.StoredVersions = []extensions.CustomResourceDefinitionCondition{}, []string{}
		all = append(all, kind)
	}
	return append(all, components.NewKubeVirtPriorityClassCR())
}

func roles() (all []any) {
	for _, object := range rbac.GetAllCluster() {
		all = append(all, object)
	}
	for _, object := range rbac.GetAllApiServer(namespace) {
		all = append(all, object)
	}
	for _, object := range rbac.GetAllController(namespace) {
		all = append(all, object)
	}
	for _, object := range rbac.GetAllHandler(namespace) {
		all = append(all, object)
	}
	return all
}

func trust(bundle string) (all []any) {
	for _, config := range components.NewCAConfigMaps(namespace) {
		config.Data = map[string]string{components.CABundleKey: bundle}
		all = append(all, config)
	}
	return append(all, &core.Namespace{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: meta.ObjectMeta{Name: namespace},
	})
}

func webhooks(port int32, bundle []byte) []any {
	validating := components.NewVirtAPIValidatingWebhookConfiguration(namespace)
	for index := range validating.Webhooks {
		reach(&validating.Webhooks[index].ClientConfig, port, bundle)
	}
	mutating := components.NewVirtAPIMutatingWebhookConfiguration(namespace)
	for index := range mutating.Webhooks {
		reach(&mutating.Webhooks[index].ClientConfig, port, bundle)
	}
	return []any{validating, mutating}
}

func reach(client *admission.WebhookClientConfig, port int32, bundle []byte) {
	client.Service.Port = &port
	client.CABundle = bundle
}

func aggregated(port int32, bundle []byte) (all []any) {
	for _, service := range components.NewVirtAPIAPIServices(namespace) {
		service.Spec.Service.Port = &port
		service.Spec.CABundle = bundle
		all = append(all, service)
	}
	return append(all, &core.Service{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta.ObjectMeta{Name: components.VirtApiServiceName, Namespace: namespace},
		Spec: core.ServiceSpec{
			Type:         core.ServiceTypeExternalName,
			ExternalName: "localhost",
			Ports:        []core.ServicePort{{Name: "https", Port: port}},
		},
	})
}
