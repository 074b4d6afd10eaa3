use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::error::{Doing, Error};
use crate::state::{private_dir, write_private};

const CLIENT: &[ExtendedKeyUsagePurpose] = &[ExtendedKeyUsagePurpose::ClientAuth];
const SERVER: &[ExtendedKeyUsagePurpose] = &[ExtendedKeyUsagePurpose::ServerAuth];
// etcd uses its one certificate towards its peers too, as both sides.
const BOTH: &[ExtendedKeyUsagePurpose] = &[
    ExtendedKeyUsagePurpose::ServerAuth,
    ExtendedKeyUsagePurpose::ClientAuth,
];

/// The name of the API server towards aggregated ones.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// The certificates and keys of one control plane, as files that only their owner can read.
///
/// They do not expire: they open one folder's data on one machine, and removing the folder revokes
/// them. The keys of the authorities are never written, so nobody can issue more.
#[derive(Debug, Clone)]
pub(crate) struct Pki(PathBuf);

impl Pki {
    /// The certificates in `folder`, made at first use.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, Error> {
        if !folder.exists() {
            let fresh = folder.with_extension("new");
            generate(&fresh)?;
            // All or nothing: a half written set would be taken for a whole one later.
            fs::rename(&fresh, folder).doing("write", folder)?;
        }
        Ok(Self(folder.to_owned()))
    }

    /// The path of one file, such as `ca.crt`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.file(name);
        fs::read(&path).doing("read", &path)
    }
}

fn generate(folder: &Path) -> Result<(), Error> {
    private_dir(folder)?;
    let cluster = Authority::new(folder, "ca", "polyvirt-local-ca")?;
    cluster.issue(
        "serving",
        Subject {
            name: "kube-apiserver",
            group: None,
        },
        SERVER,
    )?;
    let admin = Subject {
        name: "polyvirt-admin",
        group: Some("system:masters"),
    };
    cluster.issue("admin", admin, CLIENT)?;
    // An authority of its own: whoever it vouches for may speak in the name of any user.
    let front_proxy = Authority::new(folder, "front-proxy-ca", "polyvirt-local-front-proxy-ca")?;
    let proxy = Subject {
        name: FRONT_PROXY,
        group: None,
    };
    front_proxy.issue("front-proxy", proxy, CLIENT)?;
    // An authority of its own: no certificate of the cluster opens the store.
    let store = Authority::new(folder, "etcd-ca", "polyvirt-local-etcd-ca")?;
    store.issue(
        "etcd",
        Subject {
            name: "etcd",
            group: None,
        },
        BOTH,
    )?;
    store.issue(
        "etcd-client",
        Subject {
            name: "kube-apiserver",
            group: None,
        },
        CLIENT,
    )?;
    service_account_keys(folder)
}

fn service_account_keys(folder: &Path) -> Result<(), Error> {
    let key = KeyPair::generate()?;
    write_private(
        &folder.join("service-account.key"),
        key.serialize_pem().as_bytes(),
    )?;
    write_private(
        &folder.join("service-account.pub"),
        key.public_key_pem().as_bytes(),
    )
}

#[derive(Clone, Copy)]
struct Subject {
    name: &'static str,
    group: Option<&'static str>,
}

struct Authority<'a> {
    folder: &'a Path,
    issuer: Issuer<'static, KeyPair>,
}

impl<'a> Authority<'a> {
    fn new(folder: &'a Path, file: &str, name: &str) -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        write_private(&folder.join(format!("{file}.crt")), certificate.as_bytes())?;
        Ok(Self {
            folder,
            issuer: Issuer::new(params, key),
        })
    }

    fn issue(
        &self,
        file: &str,
        subject: Subject,
        usages: &[ExtendedKeyUsagePurpose],
    ) -> Result<(), Error> {
        let key = KeyPair::generate()?;
        let certificate = leaf(subject, usages)?.signed_by(&key, &self.issuer)?.pem();
        write_private(
            &self.folder.join(format!("{file}.crt")),
            certificate.as_bytes(),
        )?;
        write_private(
            &self.folder.join(format!("{file}.key")),
            key.serialize_pem().as_bytes(),
        )
    }
}

fn leaf(
    subject: Subject,
    usages: &[ExtendedKeyUsagePurpose],
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    params
        .distinguished_name
        .push(DnType::CommonName, subject.name);
    if let Some(group) = subject.group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages.to_vec();
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn made_once_private_and_without_authority_keys() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("pki");
        let first = Pki::in_folder(&folder).unwrap().read("admin.crt").unwrap();
        assert_eq!(
            Pki::in_folder(&folder).unwrap().read("admin.crt").unwrap(),
            first
        );
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(
                entry.metadata().unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        for authority in ["ca", "etcd-ca", "front-proxy-ca"] {
            assert!(folder.join(format!("{authority}.crt")).exists());
            assert!(!folder.join(format!("{authority}.key")).exists());
        }
    }
}
