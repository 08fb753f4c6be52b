//! Deliberately broken variants of the edge, which test its tests: each promise has variants that break it where it is kept,
//! and a test must catch each of them.
//!
//! Contract: that of the [variants of the storage engine](abide_storage::broken). Without the feature `broken` the product is
//! unchanged.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_SERVER";

abide_storage::broken_variants! {
    VARIABLE;
    access {
        /// Only the beginning of a secret's hash is compared. Nobody gets in with another secret.
        HashPrefixAccepted,
        /// The role of a caller who sends PUT is not looked at. A role does what it may.
        RoleUncheckedOnPut,
        /// A token that has expired is valid. A token ends.
        ExpiryIgnored,
        /// A token that was revoked is valid. A token ends.
        RevocationIgnored,
        /// A token reaches all objects. A token reaches the objects of its prefix.
        PrefixIgnored,
        /// The digits of an id are compared with a token's prefix as if they were a name. A token reaches the objects of its prefix.
        IdTakenForName,
        /// A fork may have any name. A token reaches the objects of its prefix.
        ForkAnywhere,
        /// What a token has opened stays open. A token ends.
        StreamOutlivesToken,
        /// Wrong tokens are not counted. Nobody can guess for long.
        FailuresUncounted,
        /// A change is made without a row in the audit log. What operators change is on record.
        AuditSkipped,
        /// An answer is given before the audit log has the change. What operators change is on record before it is made.
        AuditFailureIgnored,
        /// All tokens share a budget of requests. A token has its own budget.
        TokensShareBudget,
    }
    components {
        /// Whoever may read may change what a component has. A role does what it may.
        ComponentRoleUnchecked,
        /// A component changes something without a row in the audit log. What operators change is on record.
        ComponentChangeUnaudited,
        /// Another component of the object is asked. An operation is that of the component which is named.
        OtherComponentOperated,
        /// An object that is not there is asked, and so made. What was never written leaves nothing.
        AbsentObjectOperated,
    }
    site {
        /// A request is answered under any name. A rebound web page reaches nothing.
        HostUnchecked,
        /// The origin of a request that opens a WebSocket is not looked at. Another site's page reaches nothing.
        OriginUncheckedOnUpgrade,
        /// The origin of a request that changes something is not looked at. Another site's page reaches nothing.
        OriginUncheckedOnPost,
    }
    edge {
        /// `X-Forwarded-For` is believed, whoever sends it. A client is who it is.
        ForwardedFromAnybody,
        /// A header of the PROXY protocol is believed, whoever sends it. A client is who it is.
        ProxyHeaderFromAnybody,
        /// A connection without a request is kept for ever. Peers that do nothing hold nothing.
        IdleForEver,
        /// A reader that takes nothing is kept for ever. Peers that do nothing hold nothing.
        StalledReaderKept,
        /// A client has as many connections as it likes. A client has its share of connections.
        CapIgnored,
        /// All clients share what one may have. A client has its share of connections.
        ClientsShareCap,
        /// A client sends as many requests as it likes. A client has its share of requests.
        RateIgnored,
    }
    tls {
        /// Clients without a certificate are served. Only clients with one are.
        ClientCertificateOptional,
        /// Changed files are not read. A renewed certificate is taken into use.
        ChangeUnnoticed,
    }
}
