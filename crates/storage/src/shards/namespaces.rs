//! The numbers of namespaces, which all stores that share objects have in common: bookmarks and logs contain them.

use crate::engine::Engine;
use crate::error::{Error, Result};

impl Engine {
    /// Takes the namespaces that another store knew, or that all of them share: this store knows them, or some of them and no others.
    ///
    /// # Errors
    /// One has another number here.
    pub(crate) fn learn_namespaces(&self, shared: &[String]) -> Result<()> {
        let is_known = |own: &[String]| own.starts_with(shared);
        if is_known(&self.shared.catalog.current().namespaces) {
            return Ok(());
        }
        let mut learned = Ok(());
        self.shared.publish(|manifest| {
            let own = &mut manifest.namespaces;
            let differ = own.iter().zip(shared).find(|(own, other)| own != other);
            if let Some((own, other)) = differ {
                learned = Err(Error::refused(format!(
                    "the class `{own}` has the number that other stores use for `{other}`: what they share has lost commits"
                )));
                return;
            }
            let known = own.len();
            own.extend(shared.iter().skip(known).cloned());
        })?;
        learned
    }
}
