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
    let rows: Vec<String> = report().aims().iter().map(|aim| aim.row().join(" | ")).collect();
    let expected = [
        "CPU a call at 64 clients, x hop's | 2.30 | <= 1.8 | MISSED",
        "throughput at 64 clients, of hop's | 0.60 | >= 0.6 | met",
        "added p50 at one client, x hop's | 5.00 | <= 3 | MISSED",
        "resident MiB after load | 30.0 | <= 30 | met",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn the_json_holds_cells_and_aims() {
    let json: serde_json::Value = serde_json::from_str(&report().json().unwrap()).unwrap();
    assert_eq!(json["cells"][2]["path"], "drawgate");
    assert_eq!(json["aims"][1]["bound"]["at_least"], 0.6);
    assert_eq!(json["aims"][0]["met"], false);
}

#[test]
fn a_hop_that_adds_nothing_gives_no_ratio() {
    let mut report = report();
    report.cells[1].p50_us = 99.0;
    assert!(aims::added_ratio(&report.cells, 1).is_none());
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
    assert!(text.trim_end().lines().last().unwrap().contains("resident MiB after load"));
}
