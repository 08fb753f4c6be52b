//! What every request meets: the settings that hold, and the rooms that were opened with them.
//!
//! Contract: settings are replaced as a whole or not at all. A file that cannot be used changes nothing; the error says why.
//! Visitors who are inside or wait keep their places.

use std::{path::PathBuf, sync::Arc};

use abide::{
    Env,
    server::{AddressBlock, Hosts, RequestHost},
};
use thiserror::Error;
use tokio::sync::{Mutex, watch};

use super::{Origin, forward::NoRoots};
use crate::{
    room::{Layout, Room},
    settings::{Settings, SettingsError},
};

/// What does not change while the program runs.
#[derive(Debug)]
pub struct Front {
    /// The file with the settings.
    pub file: PathBuf,
    /// The data centres.
    pub layout: Layout,
    /// The host names that `server.hosts` lists.
    pub hosts: Hosts,
    /// Proxies whose forwarding headers are trusted.
    pub trusted: Vec<AddressBlock>,
    /// The listener speaks TLS.
    pub speaks_tls: bool,
    /// Operators' pages need a token, whatever the listener.
    pub needs_token: bool,
}

/// Settings, and what was opened with them.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) settings: Settings,
    pub(crate) origin: Origin,
    pub(crate) rooms: Vec<Arc<Room>>,
}

/// Everything that a request meets.
#[derive(Debug)]
pub struct Edge {
    pub(crate) env: Env,
    pub(crate) front: Front,
    first: (Settings, Origin),
    serving: watch::Sender<Option<Arc<Serving>>>,
    /// Held while rooms are opened.
    opening: Mutex<()>,
}

/// Why new settings were refused. The old ones hold.
#[derive(Debug, Error)]
pub enum ReloadError {
    /// The file cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Minutes are counted from the start.
    #[error(
        "`minute` cannot change while the server runs, because visitors are counted by it: restart the server"
    )]
    Minute,
    /// The new origin cannot be reached safely.
    #[error(transparent)]
    Origin(#[from] NoRoots),
    /// The rooms could not be opened.
    #[error("the rooms could not be opened: {0}; try again")]
    Rooms(#[from] abide::Error),
}

impl Edge {
    /// The edge of these rooms, which are opened when they are needed.
    pub fn new(env: Env, front: Front, settings: Settings, origin: Origin) -> Arc<Self> {
        Arc::new(Self {
            env,
            front,
            first: (settings, origin),
            serving: watch::Sender::new(None),
            opening: Mutex::new(()),
        })
    }

    /// The settings that hold, and their rooms; opened by the first call.
    pub(crate) async fn serving(&self) -> abide::Result<Arc<Serving>> {
        if let Some(serving) = self.current() {
            return Ok(serving);
        }
        let _held = self.opening.lock().await;
        if let Some(serving) = self.current() {
            return Ok(serving);
        }
        let (settings, origin) = self.first.clone();
        let serving = self.open(settings, origin, None).await?;
        self.serving.send_replace(Some(Arc::clone(&serving)));
        Ok(serving)
    }

    /// Reads the file again, and serves by it from then on.
    pub(crate) async fn reload(&self) -> Result<(), ReloadError> {
        let settings = Settings::load(&self.front.file)?;
        let _first = self.serving().await?;
        let _held = self.opening.lock().await;
        let Some(old) = self.current() else {
            return Ok(());
        };
        if settings.minute != old.settings.minute {
            return Err(ReloadError::Minute);
        }
        let origin = if settings.origin == old.settings.origin {
            old.origin.clone()
        } else {
            Origin::new(settings.origin.clone())?
        };
        let new = self.open(settings, origin, Some(&old)).await?;
        self.serving.send_replace(Some(new));
        for room in &old.rooms {
            room.close();
        }
        tracing::info!(file = %self.front.file.display(), "the settings were reloaded");
        Ok(())
    }

    fn current(&self) -> Option<Arc<Serving>> {
        self.serving.borrow().clone()
    }

    async fn open(
        &self,
        settings: Settings,
        origin: Origin,
        old: Option<&Serving>,
    ) -> abide::Result<Arc<Serving>> {
        let mut rooms = Vec::new();
        for room in &settings.rooms {
            let mut known = old.iter().flat_map(|old| &old.rooms);
            let known = known.find(|known| known.settings.name == room.name);
            let layout = &self.front.layout;
            rooms.push(
                Room::open(&self.env, room, &settings, layout, known.map(Arc::as_ref)).await?,
            );
        }
        Ok(Arc::new(Serving {
            settings,
            origin,
            rooms,
        }))
    }

    /// Whether visitors may ask for this host. Once a room names a host, a host that no room has would be a way
    /// past the rooms to the same origin.
    pub(crate) fn admits(&self, settings: &Settings, host: Option<&RequestHost>) -> bool {
        let hosts = &self.front.hosts;
        match host {
            Some(host) if settings.names_host(host) => true,
            Some(host) if settings.names_hosts() => !host.is_local() && hosts.contain(host),
            Some(host) => hosts.contain(host),
            None => !settings.names_hosts(),
        }
    }
}
