//! Deliberately broken variants of the server, which test its tests: each guarantee has variants that break it in the
//! code that provides it, and a test must catch each of them.
//!
//! Contract: as for the [variants of the storage engine](abide_storage::broken). Without the feature `broken` the
//! product is unchanged.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_SERVER";

abide_storage::broken_variants! {
    VARIABLE;
    access {
        /// Only the beginning of a secret's hash is compared. Another secret grants no access.
        HashPrefixAccepted,
        /// The role of a caller who sends PUT is not checked. A role limits its caller.
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
        /// Streams opened with a token stay open. A token ends.
        StreamOutlivesToken,
        /// Mutation: wrong tokens are not counted. Promise: tokens cannot be guessed for long.
        FailuresUncounted,
        /// A change is made without a row in the audit log. What operators change is on record.
        AuditSkipped,
        /// A response is sent before the change is in the audit log. Changes by operators are recorded before they are
        /// made.
        AuditFailureIgnored,
        /// All tokens share a budget of requests. A token has its own budget.
        TokensShareBudget,
    }
    components {
        /// The role to read may change a component. A role limits its caller.
        ComponentRoleUnchecked,
        /// A component makes a change without a row in the audit log. Changes by operators are recorded.
        ComponentChangeUnaudited,
        /// Another component of the object is called. An operation goes to the named component.
        OtherComponentOperated,
        /// A request to a missing object creates it. An object that was never written leaves nothing.
        AbsentObjectOperated,
    }
    site {
        /// A request is answered under any host name. A rebound web page reaches nothing.
        HostUnchecked,
        /// The origin of a request that opens a WebSocket is not checked. Another site's page reaches nothing.
        OriginUncheckedOnUpgrade,
        /// The origin of a request that changes something is not checked. Another site's page reaches nothing.
        OriginUncheckedOnPost,
    }
    edge {
        /// Mutation: `X-Forwarded-For` is trusted from every sender. Promise: a client cannot pretend to be another.
        ForwardedFromAnybody,
        /// Mutation: a header of the PROXY protocol is trusted from every sender. Promise: a client cannot pretend to
        /// be another.
        ProxyHeaderFromAnybody,
        /// A connection without a request is kept forever. Idle peers hold no resources.
        IdleForEver,
        /// A stalled reader is kept forever. Idle peers hold no resources.
        StalledReaderKept,
        /// A request is given up when its client closes its half of the connection. Requests that are executed are answered.
        HalfClosedGivenUp,
        /// Any number of pings is answered at once. A peer causes bounded work.
        PingFloodServed,
        /// A client may have any number of connections. A client has its share of connections.
        CapIgnored,
        /// All clients share the limit of one. A client has its share of connections.
        ClientsShareCap,
        /// A client may send any number of requests. A client has its share of requests.
        RateIgnored,
    }
    tls {
        /// Clients without a certificate are served. Only clients with one are.
        ClientCertificateOptional,
        /// Changed files are not reloaded. A renewed certificate is used.
        ChangeUnnoticed,
    }
}
