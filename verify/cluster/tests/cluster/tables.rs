use abide_cluster::{Answer, Outcome, Statement};
use abide_cluster_sim::Tables;

#[test]
fn a_start_that_arrives_late_changes_nothing() {
    let mut tables = Tables::new(1);
    let first = tables.start(0, 2, 1).unwrap();
    for late in [1, 2] {
        assert_eq!(tables.start(0, late, 7), None);
    }
    let renewed = tables.execute(first, &Statement::Renew(1), &[]);
    assert_eq!(renewed, Outcome::Done(Answer::Committed));
    tables.start(0, 3, 8).unwrap();
    let renewed = tables.execute(first, &Statement::Renew(2), &[]);
    assert_eq!(renewed, Outcome::Refused);
}
