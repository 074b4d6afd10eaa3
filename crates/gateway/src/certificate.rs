//! The certificate that we show to the API server. Kept in a Secret, so that a restart or a second replica shows the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::server::{GatewayError, Place, Reach};

/// Removing the Secret and restarting the manager makes a new one at any time.
const YEARS: i32 = 10;

/// Certificate, key, and who vouches for it, as PEM.
#[derive(Clone)]
pub struct Serving {
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Serving {
    /// The one in the Secret, or a new one that is put there.
    pub async fn find_or_make(client: &Client, place: &Place) -> Result<Self, GatewayError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), &place.namespace);
        let name = format!("{}-tls", place.service);
        if let Some(found) = api.get_opt(&name).await? {
            return Self::from_secret(found, &name);
        }
        let made = Self::make(&place.server_name())?;
        let mut secret = made.secret(&name);
        secret.metadata.owner_references = owner(client, place).await;
        match api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(made),
            // Another replica was quicker.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                Self::from_secret(api.get(&name).await?, &name)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn from_secret(secret: Secret, name: &str) -> Result<Self, GatewayError> {
        let mut data = secret.data.unwrap_or_default();
        let mut take = |key: &'static str| {
            let value = data.remove(key).map(|value| value.0);
            value.ok_or_else(|| GatewayError::BadSecret(name.to_owned(), key))
        };
        Ok(Self {
            ca: take("ca.crt")?,
            certificate: take("tls.crt")?,
            key: take("tls.key")?,
        })
    }

    fn secret(&self, name: &str) -> Secret {
        let parts = [
            ("ca.crt", &self.ca),
            ("tls.crt", &self.certificate),
            ("tls.key", &self.key),
        ];
        let data = parts.map(|(key, value)| (key.to_owned(), ByteString(value.clone())));
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(BTreeMap::from(data)),
            ..Secret::default()
        }
    }

    fn make(server_name: &str) -> Result<Self, GatewayError> {
        let mut ca = lasting(CertificateParams::default());
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        ca.distinguished_name
            .push(DnType::CommonName, "polyvirt-gateway-ca");
        // Its key is not kept: nobody can issue more.
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let mut leaf = lasting(CertificateParams::new(vec![server_name.to_owned()])?);
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        leaf.distinguished_name
            .push(DnType::CommonName, "polyvirt-gateway");
        let certificate = leaf.signed_by(&key, &ca)?;
        Ok(Self {
            ca: ca.pem().into_bytes(),
            certificate: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        })
    }

    /// Who vouches for us, as the API server wants it.
    pub fn authority(&self) -> ByteString {
        ByteString(self.ca.clone())
    }

    /// Certificate and key for the TLS stack.
    pub fn parts(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), GatewayError> {
        let bad =
            |error: rustls::pki_types::pem::Error| GatewayError::BadAuthority(error.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(bad)?;
        Ok((chain.map_err(bad)?, key))
    }
}

/// The Service in front of us, so that the Secret goes when it does. One that we made ourselves stays, and so does the Secret.
async fn owner(client: &Client, place: &Place) -> Option<Vec<OwnerReference>> {
    if place.reach != Reach::Pods {
        return None;
    }
    let api: Api<Service> = Api::namespaced(client.clone(), &place.namespace);
    let service = api.get(&place.service).await.ok()?;
    service.owner_ref(&()).map(|owner| vec![owner])
}

fn lasting(mut params: CertificateParams) -> CertificateParams {
    let year = i32::from(Timestamp::now().to_zoned(TimeZone::UTC).year());
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + YEARS, 1, 1);
    params
}
