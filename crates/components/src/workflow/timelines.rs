//! What a restore and a fork of an instance's object mean.
//!
//! The directory, and the instance's children, remember the undone future. After a restore the instance reports its status
//! again, and asks the children that it waits for, whose results it may have forgotten.

use std::rc::Rc;

use abide::{Activation, Result, Timeline};

use super::{
    Status,
    inner::Inner,
    notice::{self, Child},
};

impl Inner {
    /// The object is on a new timeline.
    pub(super) fn begin_timeline(self: &Rc<Self>, timeline: &Timeline) -> Result<()> {
        let instance = self.rows.instance()?;
        let Some(instance) = instance.filter(|_| !timeline.is_fork()) else {
            return Ok(());
        };
        let now = self.now();
        self.rows
            .add_notice(notice::LIST, &instance.workflow, "", now)?;
        if !instance.status.is_end() {
            for (workflow, child) in self.rows.open_children(None)? {
                // One that was not started will be.
                if self.rows.awaits_child(&child)?
                    && !self.rows.has_notice(notice::START, &child)?
                {
                    let input = String::new();
                    let payload = notice::to_json(&Child { workflow, input })?;
                    self.rows.add_notice(notice::ASK, &child, &payload, now)?;
                }
            }
        }
        self.kick()
    }

    /// The object is activated, and starts anew afterwards. A copy runs no step of its original and notifies no other
    /// object: the ids that it has inherited are the original's.
    pub(super) fn activated(&self, how: Activation) -> Result<()> {
        if how == Activation::Continue {
            return Ok(());
        }
        let instance = self.rows.instance()?;
        let Some(instance) = instance.filter(|instance| !instance.status.is_end()) else {
            return Ok(());
        };
        let now = self.now();
        self.rows.abandon(now)?;
        self.rows.remove_all_notices()?;
        let why = "a copy does not continue its original";
        self.rows.set_status(Status::Canceled, Some(why), now)?;
        tracing::warn!(
            workflow = instance.workflow,
            instance = instance.id,
            "a copied workflow has dropped the running steps of its original"
        );
        Ok(())
    }
}
