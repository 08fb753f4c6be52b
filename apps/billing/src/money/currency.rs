//! Currencies.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::MoneyError;

/// Currencies of ISO 4217 in use, by the digits of their minor unit.
const IN_USE: [(u8, &str); 3] = [
    (
        0,
        "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
    ),
    (
        2,
        "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP \
         CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES \
         KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK \
         NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB \
         TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW",
    ),
    (3, "BHD IQD JOD KWD LYD OMR TND"),
];

/// Currencies that are no longer in use: earlier bills are still shown with the right digits.
const RETIRED: [(u8, &str); 1] = [(2, "ANG BGN CUC HRK SLL ZWL")];

/// A currency, by its three-letter code.
///
/// One that is read from JSON may no longer be in use; [`check`](Self::check) rejects that in new input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency {
    code: [u8; 3],
    digits: u8,
}

impl Currency {
    /// The code, as `EUR`.
    pub fn code(&self) -> &str {
        str::from_utf8(&self.code).unwrap_or_default()
    }

    /// Decimal digits of the minor unit: 2 for cents, 0 if there is none, or if it is unknown.
    pub fn digits(self) -> u8 {
        self.digits
    }

    /// Rejects a currency that is not in use.
    pub fn check(self) -> Result<(), MoneyError> {
        match digits_of(&IN_USE, self.code) {
            Some(_) => Ok(()),
            None => Err(MoneyError::UnknownCurrency(self.code().to_owned())),
        }
    }
}

impl FromStr for Currency {
    type Err = MoneyError;

    /// Parses the code of a currency in use, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let currency = Self::try_from(text.to_owned())?;
        currency.check()?;
        Ok(currency)
    }
}

/// The digits of a currency, if it is in the list.
fn digits_of(currencies: &[(u8, &str)], code: [u8; 3]) -> Option<u8> {
    let has = |codes: &str| codes.split(' ').any(|known| known.as_bytes() == code);
    let found = currencies.iter().find(|(_, codes)| has(codes));
    found.map(|(digits, _)| *digits)
}

impl TryFrom<String> for Currency {
    type Error = MoneyError;

    /// Accepts any three letters.
    fn try_from(text: String) -> Result<Self, MoneyError> {
        let unknown = || MoneyError::UnknownCurrency(text.chars().take(8).collect());
        let code = text.to_ascii_uppercase();
        let code: [u8; 3] = code.as_bytes().try_into().map_err(|_| unknown())?;
        if !code.iter().all(u8::is_ascii_uppercase) {
            return Err(unknown());
        }
        let digits = digits_of(&IN_USE, code).or(digits_of(&RETIRED, code));
        Ok(Self {
            code,
            digits: digits.unwrap_or(0),
        })
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.code().to_owned()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_known_with_their_digits() {
        let digits = |code: &str| code.parse::<Currency>().map(Currency::digits);
        assert_eq!(digits("EUR"), Ok(2));
        assert_eq!(digits("jpy"), Ok(0));
        assert_eq!(digits("TND"), Ok(3));
        for wrong in ["", "EU", "EURO", "E R", "XXX", "€"] {
            assert!(digits(wrong).is_err(), "{wrong}");
        }
    }
}
