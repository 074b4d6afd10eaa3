//! What the provider is asked to make, with user data from Secrets.

use polyvirt_contract::model::CreateVm;
use polyvirt_plan::user_data::{self, Sources};
use polyvirt_plan::virtual_machine::Outcome;
use polyvirt_plan::{Problem, Reason};

use super::pass::{Flow, Pass};
use crate::cluster::ClusterError;
use crate::next::Next;
use crate::runtime::key::ObjectKey;

impl Pass<'_> {
    /// The whole request, with user data from Secrets.
    pub(super) async fn request(&mut self) -> Result<CreateVm, Flow> {
        let desired = match &self.desired {
            Ok(desired) => desired.vm.clone(),
            Err(problem) => return Err(Flow::End(Outcome::Stopped(problem.clone()))),
        };
        let vm = self.vm.clone();
        let rendered = self.render(&Sources::of(&vm.spec)).await?;
        Ok(CreateVm {
            user_data: rendered.user_data,
            meta_data: user_data::complete_meta_data(
                &rendered.meta_data,
                self.key.name(),
                &self.identity,
            ),
            network_data: rendered.network_data,
            ..desired
        })
    }

    /// A Secret that cannot be read is told, and read again: nothing else would wake us.
    async fn render(&mut self, sources: &Sources<'_>) -> Result<user_data::Rendered, Flow> {
        let mut secrets = std::collections::BTreeMap::new();
        for (_, name) in user_data::secrets_needed(sources) {
            let key = ObjectKey::new(self.key.namespace(), name);
            match self.ctx.cluster.secret(&key).await {
                Ok(data) => secrets.insert(name.to_owned(), data),
                Err(error) => {
                    self.come_again = Some(Next::after_refusal(&error));
                    return Err(Flow::End(Outcome::Stopped(unreadable(name, &error))));
                }
            };
        }
        user_data::render(sources, &secrets).map_err(|problem| Flow::End(Outcome::Stopped(problem)))
    }
}

fn unreadable(secret: &str, error: &ClusterError) -> Problem {
    Problem::new(
        Reason::SecretInvalid,
        "spec.userData",
        format!("Secret {secret} cannot be read: {error}"),
    )
}
