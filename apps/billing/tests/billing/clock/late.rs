//! Money that comes when nothing is owed for it any more.

use abide_harness::run;
use billing::states::{self, Verdict};

use crate::clock::support::{World, date, monthly};

#[test]
fn late_money_is_recorded_and_only_the_first_payment_is_returned() {
    run(async {
        for voids in [true, false] {
            let world = World::starting("2026-01-01T00:00:00Z").await;
            world.subscribe(monthly(1_000)).await;
            world.until(date("2026-01-31T00:00:00Z")).await;
            world.bank.answer(|_| Verdict::Failed);
            world.until(date("2026-02-01T00:10:00Z")).await;
            if voids {
                let voided = world.subscription().void("in_sub_1_1".into()).await;
                voided.unwrap();
            } else {
                world.give_up(1).await;
            }
            world.until(date("2026-02-01T01:00:00Z")).await;
            // The gateway has said that it was refused, and has it all the same.
            for _ in 0..2 {
                world.reports(1, 1, Verdict::Paid).await;
            }
            let view = world.subscription().get_state().await.unwrap();
            let live: states::Subscription = serde_json::from_value(view.data).unwrap();
            assert_eq!(live.gives_back("sub_1", "in_sub_1_1"), voids);
            assert!(!live.gives_back("sub_1", "in_sub_1_0"));
            let invoice = world.invoice(1).await.unwrap();
            let state = if voids { "void" } else { "paid" };
            assert_eq!(invoice.state, state);
            let invoice: states::Invoice = serde_json::from_value(invoice.data).unwrap();
            assert_eq!(invoice.late.len(), usize::from(voids));
            assert_eq!(world.state().await, "active");
            world.check().await;
        }
    });
}
