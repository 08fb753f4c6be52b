//! Products and prices: their chains say all there is to them.

use super::calls::plain;

plain! {
    /// What is sold.
    Product
}

plain! {
    /// What a product costs.
    Price
}
