//! The node starts, continues and answers: whatever happened before, as long as the disk works.

use crate::history::Event;

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    for event in events {
        match event {
            Event::Refused(error) => {
                return Err(format!("the data directory is refused: {error}"));
            }
            Event::Failed(error) => return Err(format!("the node failed: {error}")),
            Event::Hangs(id) => return Err(format!("operation {id} was never answered")),
            _ => {}
        }
    }
    Ok(())
}
