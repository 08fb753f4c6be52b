//! The shrinker leaves out what a failure does not need.

use abide_sim::{Plan, plan::Step, shrink::shrink};

fn has(plan: &Plan, step: &Step) -> bool {
    plan.steps.contains(step)
}

/// A plan of many steps with two that matter.
fn plan() -> Plan {
    let mut plan = Plan::new(1, None);
    plan.steps = vec![Step::Rounds(1); 60];
    plan.steps[13] = Step::Kill;
    plan.steps[47] = Step::FailSyncs;
    plan
}

#[test]
fn only_the_steps_that_a_failure_needs_are_left_in_their_order() {
    let short = shrink(&plan(), |plan| {
        has(plan, &Step::Kill) && has(plan, &Step::FailSyncs)
    });
    assert_eq!(short.steps, [Step::Kill, Step::FailSyncs]);
}

#[test]
fn a_failure_that_needs_all_its_steps_keeps_them() {
    let whole = plan();
    let short = shrink(&whole, |plan| plan.steps.len() == whole.steps.len());
    assert_eq!(short, whole);
}

#[test]
fn a_plan_is_said_readably_with_what_replays_it() {
    let text = plan().to_string();
    assert!(text.starts_with("seed 1:"), "{text}");
    assert!(text.contains("\n  13  Kill\n"), "{text}");
}
