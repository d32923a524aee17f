use super::*;

fn cell(path: Path, clients: usize, rps: f64, p50_us: f64, cpu_us: Option<f64>) -> Cell {
    Cell {
        path,
        clients,
        rps,
        p50_us,
        p99_us: 2.0 * p50_us,
        max_us: 0.0,
        cpu_us,
        resident_mib: None,
    }
}

fn report() -> Report {
    let mut report = Report::new(Plan { rounds: 3, milliseconds: 3000, starts: 10, spawns: 300 });
    report.cells = vec![
        cell(Path::Direct, 1, 10_000.0, 100.0, None),
        cell(Path::Hop, 1, 8_000.0, 130.0, Some(20.0)),
        cell(Path::Drawgate, 1, 5_000.0, 250.0, Some(44.0)),
        cell(Path::Hop, 64, 20_000.0, 3_000.0, Some(20.0)),
        cell(Path::Drawgate, 64, 12_000.0, 5_000.0, Some(46.0)),
    ];
    report.resident_mib = Some(30.0);
    report
}

#[test]
fn aims_are_judged_by_ratios_and_missing_figures_are_left_out() {
    let lines: Vec<String> = report().aims().iter().map(Aim::text).collect();
    let expected = [
        "throughput at 64 / hop 0.60 (aim >= 0.55): met",
        "CPU at 64 / hop 2.30 (aim <= 2.25): MISSED",
        "added p50 at 1 / hop's 5.00 (aim <= 4): MISSED",
        "resident MiB 30.0 (aim < 30): MISSED",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_json_holds_cells_and_aims() {
    let json: serde_json::Value = serde_json::from_str(&report().json().unwrap()).unwrap();
    assert_eq!(json["cells"][2]["path"], "drawgate");
    assert_eq!(json["aims"][0]["bound"]["at_least"], 0.55);
    assert_eq!(json["aims"][1]["met"], false);
}

#[test]
fn a_hop_that_adds_nothing_gives_no_ratio() {
    let mut report = report();
    report.cells[1].p50_us = 99.0;
    assert!(aims::added_ratio(&report, 1).is_none());
}

#[test]
fn every_cell_is_a_line_and_the_aims_come_last() {
    let text = report().text();
    let lines: Vec<&str> = text.lines().collect();
    let row: Vec<&str> =
        lines.iter().find(|line| line.contains("drawgate")).unwrap().split_whitespace().collect();
    let expected =
        ["1", "drawgate", "5000", "250.0", "500.0", "44.0", "-", "0.50", "0.62", "150.0", "5.00"];
    assert_eq!(row, expected);
    assert!(lines.last().unwrap().starts_with("aims: "));
}
