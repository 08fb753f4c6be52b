//! The plot: two groups of bars, one for each measure.

use plotters::prelude::*;

use super::{DIVISIONS, Outcome};

const SIZE: (u32, u32) = (1_100, 640);
const COLOURS: [RGBColor; 3] = [
    RGBColor(15, 138, 109),
    RGBColor(179, 89, 10),
    RGBColor(52, 81, 209),
];
/// Room between the groups of bars.
const GROUP: f64 = 0.26;

/// An SVG.
pub(super) fn draw(outcomes: &[Outcome]) -> Result<String, anyhow::Error> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (above, below) = area.split_vertically(SIZE.1 / 2);
        bars(
            &above,
            "Overshoot: visitors inside beyond the limit of 1,000, at most",
            outcomes,
            |outcome| outcome.overshoot,
        )?;
        bars(
            &below,
            "Queued too early: visitors who were queued although there was a slot",
            outcomes,
            |outcome| outcome.queued_too_early,
        )?;
        area.present()?;
    }
    Ok(svg)
}

fn bars(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    outcomes: &[Outcome],
    of: impl Fn(&Outcome) -> f64,
) -> Result<(), anyhow::Error> {
    let groups: Vec<&[Outcome]> = outcomes.chunks(DIVISIONS.len()).collect();
    let highest = outcomes.iter().map(&of).fold(1.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(26)
        .y_label_area_size(46)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..highest)?;
    let label = |x: &f64| {
        let group = groups
            .iter()
            .zip(0_u32..)
            .find(|(_, index)| (x - f64::from(*index) - 0.5).abs() < 0.01);
        group.map_or_else(String::new, |(group, _)| group[0].scenario.to_owned())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(groups.len() * 2 + 1)
        .x_label_formatter(&label)
        .label_style(("sans-serif", 12))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (place, ((name, _), colour)) in DIVISIONS.iter().zip(COLOURS).enumerate() {
        let bars = groups.iter().enumerate().map(|(group, outcomes)| {
            let left =
                group as f64 + GROUP / 2.0 + place as f64 * (1.0 - GROUP) / DIVISIONS.len() as f64;
            let right = left + (1.0 - GROUP) / DIVISIONS.len() as f64 - 0.02;
            Rectangle::new(
                [(left, 0.0), (right, of(&outcomes[place]))],
                colour.filled(),
            )
        });
        chart
            .draw_series(bars)?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.9))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}
