//! What a VM needs and would like, in the scheduler's words.

use std::collections::{BTreeMap, BTreeSet};

use polyvirt_api::infra::{self as api, VMPlacementPolicy, VirtualMachine, VirtualMachineSpec};
use polyvirt_contract::Features;
use polyvirt_contract::model::{CreateVm, DiskType};
use polyvirt_placement::{
    DeviceKind, DeviceRequest, Request, Rule, Storage, Subject, Topology, VmTerm, affinity, policy,
};
use polyvirt_plan::{Problem, Reason};

use crate::context::Stores;
use crate::runtime::key::ObjectKey;

/// What is asked, and what the policy says that is no matter of hosts.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// What is asked.
    pub request: Request,
    /// The folder, where the VM names none.
    pub folder: Option<String>,
    /// The resource pool, where the VM names none.
    pub resource_pool: Option<String>,
}

/// The fields that make a VM one for which a host is chosen. Without any, the provider chooses.
pub fn wishes(spec: &VirtualMachineSpec) -> Vec<&'static str> {
    let place = spec.placement.clone().unwrap_or_default();
    let own = spec.resources.clone().unwrap_or_default();
    let list = [
        (
            !place.node_selector.is_empty(),
            "spec.placement.nodeSelector",
        ),
        (place.affinity.is_some(), "spec.placement.affinity"),
        (spec.placement_ref.is_some(), "spec.placementRef"),
        (own.gpu.is_some(), "spec.resources.gpu"),
        (!own.devices.is_empty(), "spec.resources.devices"),
    ];
    list.into_iter()
        .filter(|(set, _)| *set)
        .map(|(_, field)| field)
        .collect()
}

/// The policy that a VM names.
pub(crate) fn policy_key(vm: &VirtualMachine) -> Option<ObjectKey> {
    let own = vm.metadata.namespace.as_deref().unwrap_or_default();
    let named = vm.spec.placement_ref.as_ref()?;
    Some(ObjectKey::new(own, &named.name))
}

/// The VMs that must not come to where this one is.
pub(crate) fn keeps_away(stores: &Stores, vm: &VirtualMachine) -> Vec<VmTerm> {
    let affinity = vm
        .spec
        .placement
        .as_ref()
        .and_then(|p| p.affinity.as_deref());
    let policy = policy_key(vm).and_then(|key| stores.policies.get(&key));
    if affinity.is_none() && policy.is_none() {
        return Vec::new();
    }
    let labels = vm.metadata.labels.clone().unwrap_or_default();
    let subject = subject(vm, &labels);
    let own = affinity
        .map(|a| affinity::kept_away(a, &subject))
        .unwrap_or_default();
    let ruled = policy
        .map(|p| policy::kept_away(&p.spec, &subject))
        .unwrap_or_default();
    own.into_iter().chain(ruled).collect()
}

fn subject<'a>(vm: &'a VirtualMachine, labels: &'a BTreeMap<String, String>) -> Subject<'a> {
    Subject {
        namespace: vm.metadata.namespace.as_deref().unwrap_or_default(),
        labels,
        policy: vm.spec.placement_ref.as_ref().map(|r| r.name.as_str()),
    }
}

impl Question {
    /// What this VM, which is to be made so, asks of a provider with these features.
    pub fn new(
        vm: &VirtualMachine,
        made: &CreateVm,
        policy: Option<&VMPlacementPolicy>,
        features: &Features,
    ) -> Result<Self, Problem> {
        let meta = &vm.metadata;
        let request = Request {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
            policy: vm.spec.placement_ref.as_ref().map(|r| r.name.clone()),
            cpus: made.class.cpu,
            memory_mib: made.class.memory_mib,
            devices: devices(&vm.spec, features),
            ..Request::default()
        };
        let mut question = Self {
            request,
            ..Self::default()
        };
        let labels = question.request.labels.clone();
        let subject = subject(vm, &labels);
        question.obey(policy, &subject)?;
        question.hear(vm, &subject)?;
        question.fit(made);
        Ok(question)
    }

    /// The question, if it can be answered with what is known here.
    pub(crate) fn with(self, stores: &Stores) -> Result<Self, Problem> {
        match self.request.namespace_label() {
            Some(label) if stores.namespaces.labels().is_none() => Err(Problem::new(
                Reason::InvalidSpec,
                "spec.placement.affinity",
                format!(
                    "Label {label:?} of namespaces is not known: the manager works in some namespaces only, or may not list them. List the namespaces, or match kubernetes.io/metadata.name"
                ),
            )),
            _ => Ok(self),
        }
    }

    /// What the policy says comes first: the VM's own words add to it.
    fn obey(
        &mut self,
        policy: Option<&VMPlacementPolicy>,
        vm: &Subject<'_>,
    ) -> Result<(), Problem> {
        let Some(policy) = policy else { return Ok(()) };
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        let demands = policy::lower(name, &policy.spec, vm).map_err(|error| {
            let text = format!("VMPlacementPolicy {name} cannot be followed: {error}");
            Problem::new(Reason::InvalidSpec, "spec.placementRef", text)
        })?;
        self.request.rules = demands.rules;
        self.request.wishes = demands.wishes;
        self.request.storage = demands.storage;
        self.folder = demands.folder;
        self.resource_pool = demands.resource_pool;
        Ok(())
    }

    fn hear(&mut self, vm: &VirtualMachine, subject: &Subject<'_>) -> Result<(), Problem> {
        let Some(place) = &vm.spec.placement else {
            return Ok(());
        };
        if !place.node_selector.is_empty() {
            self.request
                .rules
                .push(Rule::Labels(place.node_selector.clone()));
        }
        if let Some(affinity) = &place.affinity {
            let lowered = affinity::lower(affinity, subject).map_err(|error| {
                Problem::new(
                    Reason::InvalidSpec,
                    "spec.placement.affinity",
                    error.to_string(),
                )
            })?;
            self.request.rules.extend(lowered.rules);
            self.request.wishes.extend(lowered.wishes);
        }
        Ok(())
    }

    /// Names that the VM or its Provider gives, and room for disks that are allocated at once.
    fn fit(&mut self, made: &CreateVm) {
        let place = made.placement.clone().unwrap_or_default();
        if !place.host.is_empty() {
            let named = BTreeSet::from([place.host]);
            self.request.rules.push(Rule::Named(Topology::Host, named));
        }
        let storage = &mut self.request.storage;
        storage.named = Some(place.datastore).filter(|name| !name.is_empty());
        for disk in &made.disks {
            if matches!(disk.disk_type, DiskType::Thick | DiskType::EagerZeroedThick) {
                allocate(storage, &disk.storage_class, disk.size_gib);
            }
        }
        let first = made.class.disk_defaults.clone().unwrap_or_default();
        if matches!(first.disk_type.as_str(), "thick" | "eagerzeroedthick") {
            allocate(storage, "", first.size_gib);
        }
    }
}

fn allocate(storage: &mut Storage, datastore: &str, gib: u32) {
    let bytes = u64::from(gib) << 30;
    if datastore.is_empty() {
        storage.bytes += bytes;
    } else {
        *storage.elsewhere.entry(datastore.to_owned()).or_default() += bytes;
    }
}

/// Devices that the provider would pass to the VM; for one that passes none, none are looked for.
fn devices(spec: &VirtualMachineSpec, features: &Features) -> Vec<DeviceRequest> {
    let own = spec.resources.clone().unwrap_or_default();
    let gpu = own.gpu.filter(|_| features.honours("spec.resources.gpu"));
    let gpu = gpu.map(|gpu| DeviceRequest {
        kind: DeviceKind::Gpu,
        vendor: String::new(),
        model: gpu.type_.unwrap_or_default(),
        count: u32::try_from(gpu.count).unwrap_or(1),
        memory_mib: gpu
            .memory
            .and_then(|mib| u64::try_from(mib).ok())
            .unwrap_or(0),
    });
    let passed = features.honours("spec.resources.devices");
    let listed = own.devices.into_iter().filter(|_| passed).map(device);
    gpu.into_iter().chain(listed).collect()
}

fn device(request: api::DeviceRequest) -> DeviceRequest {
    DeviceRequest {
        kind: match request.type_ {
            None => DeviceKind::Any,
            Some(api::DeviceType::Gpu) => DeviceKind::Gpu,
            Some(api::DeviceType::Sriov) => DeviceKind::Sriov,
        },
        vendor: request.vendor.unwrap_or_default(),
        model: request.model.unwrap_or_default(),
        count: u32::try_from(request.count).unwrap_or(1),
        memory_mib: 0,
    }
}
