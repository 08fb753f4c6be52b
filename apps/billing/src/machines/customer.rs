//! Customers.

use abide_patterns::outcomes::Declaration;

use super::ABSENT;

/// Who pays.
pub const CUSTOMER: Declaration = Declaration {
    name: "customer",
    initial: ABSENT,
    states: &[ABSENT, "active", "deleted"],
    terminal: &["deleted"],
    actions: &["create", "update", "set_payment_method", "delete"],
    outcomes: &["created", "updated", "set", "deleted"],
    transitions: &[
        (ABSENT, "create", "created", "active"),
        ("active", "update", "updated", "active"),
        // How the customer pays, for what is billed from now on.
        ("active", "set_payment_method", "set", "active"),
        ("active", "delete", "deleted", "deleted"),
    ],
};
