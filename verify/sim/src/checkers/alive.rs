//! The node starts, goes on and answers: whatever happened before, and as long as the disk refuses nothing.

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
