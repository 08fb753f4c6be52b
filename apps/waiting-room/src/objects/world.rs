//! The object that all data centres of a room report to. It knows the newest report of each, and the key of the room's tickets.

use abide::prelude::*;
use serde_bytes::ByteBuf;

use crate::{logic::report::Report, ticket::KEY_BYTES};

const KEY: &str = "key";
const REPORT: &str = "report/";

/// All data centres of one room.
#[durable_object]
pub struct World {
    ctx: Ctx,
}

impl DurableObject for World {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl World {
    /// Takes a data centre's report and tells what the others have reported. An older report than the one that is known changes nothing.
    pub async fn exchange(&self, report: Report) -> Result<Vec<Report>> {
        let storage = self.ctx.storage();
        let name = format!("{REPORT}{}", report.data_centre);
        let known = storage.get::<Report>(&name)?;
        if known.is_none_or(|known| known.at <= report.at) {
            storage.put(&name, &report)?;
        }
        let options = ListOptions::default().prefix(REPORT.to_owned());
        let all = storage
            .list::<Report>(&options)?
            .into_iter()
            .map(|(_, report)| report);
        Ok(all
            .filter(|other| other.data_centre != report.data_centre)
            .collect())
    }

    /// Forgets data centres that no longer exist.
    pub async fn keep_only(&self, data_centres: Vec<String>) -> Result<()> {
        let storage = self.ctx.storage();
        let options = ListOptions::default().prefix(REPORT.to_owned());
        for (name, report) in storage.list::<Report>(&options)? {
            if !data_centres.contains(&report.data_centre) {
                storage.delete(&name)?;
            }
        }
        Ok(())
    }

    /// The key of the room's tickets; made when it is first asked for.
    pub async fn key(&self) -> Result<ByteBuf> {
        let storage = self.ctx.storage();
        if let Some(key) = storage.get::<ByteBuf>(KEY)? {
            return Ok(key);
        }
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(Error::from_std)?;
        let key = ByteBuf::from(key);
        storage.put(KEY, &key)?;
        Ok(key)
    }
}
