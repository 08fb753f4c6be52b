//! The calls that every class has.

/// The `#[rpc]` block of a class with a field `resource`: its own calls, and those that every class has.
macro_rules! calls {
    (impl $class:ident { $($own:tt)* }) => {
        #[abide::rpc]
        impl $class {
            $($own)*

            /// Writes an outcome, and shows what it led to.
            pub async fn transition(
                &self,
                action: String,
                outcome: String,
                data: serde_json::Value,
            ) -> Result<crate::resource::View, crate::BillingError> {
                self.resource.transition(&action, &outcome, &data)
            }

            /// Writes an outcome, unless the chain has one of this action already. The check and the write are one
            /// transaction.
            pub async fn transition_once(
                &self,
                action: String,
                outcome: String,
                data: serde_json::Value,
            ) -> Result<crate::resource::View, crate::BillingError> {
                self.resource.write_once(&action, &outcome, &data)
            }

            /// Creates it with the client's metadata.
            pub async fn create_annotated(
                &self,
                data: serde_json::Value,
                annotation: crate::states::Annotation,
            ) -> Result<crate::resource::View, crate::BillingError> {
                annotation.check()?;
                self.resource.write("create", "created", &data)?;
                self.resource.annotate(&annotation)
            }

            /// Keeps the client's metadata.
            pub async fn annotate(
                &self,
                annotation: crate::states::Annotation,
            ) -> Result<crate::resource::View, crate::BillingError> {
                self.resource.view()?;
                self.resource.annotate(&annotation)
            }

            /// The present state, with everything that is due by now.
            pub async fn get_state(&self) -> Result<crate::resource::View, crate::BillingError> {
                self.present()
            }

            /// The state at an outcome or at a time.
            pub async fn get_state_at(
                &self,
                until: abide::outcomes::Until,
            ) -> Result<crate::resource::View, crate::BillingError> {
                self.resource.view_at(until)
            }

            /// Outcomes after one, oldest first.
            pub async fn get_history(
                &self,
                after: i64,
                limit: usize,
            ) -> Result<Vec<crate::resource::Event>, crate::BillingError> {
                self.resource.history(after, limit)
            }

            /// The row of the read model.
            pub async fn get_row(&self) -> Result<crate::resource::Row, crate::BillingError> {
                self.resource.row()
            }

            /// Has the row written into the read model once more, for one that is made anew.
            pub async fn feed_again(&self) -> Result<(), crate::BillingError> {
                self.resource.feed_again()
            }

            /// A replay as a text for people.
            pub async fn replay(
                &self,
                until: abide::outcomes::Until,
            ) -> Result<String, crate::BillingError> {
                self.resource.print(until)
            }

            /// Compares a replay of the chain with the live state; the number of outcomes.
            pub async fn check(&self) -> Result<i64, crate::BillingError> {
                self.resource.check()
            }
        }
    };
}

/// A class that is its resource and nothing else.
macro_rules! plain {
    ($(#[$doc:meta])* $class:ident) => {
        $(#[$doc])*
        #[abide::durable_object]
        pub struct $class {
            resource: crate::resource::Resource<crate::states::$class>,
        }

        crate::resources::calls::alarmed!($class);
        crate::resources::calls::calls! { impl $class {} }
    };
}

/// Makes an object of a class with a field `resource` and nothing else, whose state does not depend on the time.
macro_rules! alarmed {
    ($class:ident) => {
        crate::resources::calls::timeless!($class);

        impl abide::DurableObject for $class {
            fn new(ctx: abide::Ctx, _env: abide::Env) -> abide::Result<Self> {
                let resource = crate::resource::Resource::open(&ctx, |_, _| Ok(()))?;
                Ok(Self { resource })
            }
        }
    };
}

/// The present state of a class whose state does not depend on the time.
macro_rules! timeless {
    ($class:ident) => {
        impl $class {
            fn present(&self) -> Result<crate::resource::View, crate::BillingError> {
                self.resource.view()
            }
        }
    };
}

pub(super) use {alarmed, calls, plain, timeless};
