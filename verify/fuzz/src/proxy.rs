//! Any bytes as the beginning of a proxy's connection: the result is a client or an error, and no byte after the header
//! is consumed.

use abide_server::fuzzing::read_proxy_header;

/// The input is what the connection sends.
pub fn target(bytes: &[u8]) {
    let read = |bytes: &[u8]| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(read_proxy_header(bytes))
    };
    let Ok((client, length)) = read(bytes) else {
        return;
    };
    assert!((15..=4096).contains(&length), "a header of {length} bytes");
    let alone = read(&bytes[..length]).expect("the header alone is one");
    assert_eq!(
        alone,
        (client, length),
        "bytes after the header affect the result"
    );
    assert!(
        read(&bytes[..length - 1]).is_err(),
        "a prefix of the header was accepted"
    );
}
