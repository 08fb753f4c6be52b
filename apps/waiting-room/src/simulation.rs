//! x
/// x
pub fn run(_out: &std::path::Path, _seed: u64) -> anyhow::Result<()> {
    Ok(())
}
