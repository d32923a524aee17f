use insta::assert_snapshot;

use super::*;

const COLUMNS: [Column; 5] =
    [whole("name"), spare("source"), state("state"), cut("who"), cut("what it is")];

fn rows() -> Vec<Vec<String>> {
    let rows = [
        ["time__now", "time", "ready", "everyone", "The time of day in any time zone of the world"],
        ["vfs_write", "builtin", "failed", "with file.write", "Writes a file\nin the workspace"],
        ["日本語__x", "wide", "pending", "", "\u{1b}[2Jevil"],
    ];
    rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect()
}

fn shown(width: Option<usize>, has_colours: bool) -> String {
    render(&COLUMNS, &rows(), Screen { width, has_colours })
}

#[test]
fn all_of_it_where_there_is_room_or_no_terminal() {
    assert_eq!(shown(None, false), shown(Some(200), false));
    assert_snapshot!(shown(None, false), @r"
    NAME       SOURCE   STATE    WHO              WHAT IT IS
    time__now  time     ready    everyone         The time of day in any time zone of the world
    vfs_write  builtin  failed   with file.write  Writes a file in the workspace
    日本語__x  wide     pending                   \u{1b}[2Jevil
    ");
}

#[test]
fn texts_are_cut_and_spare_columns_left_out() {
    assert_snapshot!(shown(Some(80), false), @r"
    NAME       SOURCE   STATE    WHO              WHAT IT IS
    time__now  time     ready    everyone         The time of day in any time zone…
    vfs_write  builtin  failed   with file.write  Writes a file in the workspace
    日本語__x  wide     pending                   \u{1b}[2Jevil
    ");
    assert_snapshot!(shown(Some(60), false), @r"
    NAME       STATE    WHO              WHAT IT IS
    time__now  ready    everyone         The time of day in any…
    vfs_write  failed   with file.write  Writes a file in the w…
    日本語__x  pending                   \u{1b}[2Jevil
    ");
}

#[test]
fn a_table_that_can_not_fit_becomes_blocks() {
    assert_snapshot!(shown(Some(30), false), @r"
    NAME          time__now
      SOURCE      time
      STATE       ready
      WHO         everyone
      WHAT IT IS  The time of day in any time zone of the world
    NAME          vfs_write
      SOURCE      builtin
      STATE       failed
      WHO         with file.write
      WHAT IT IS  Writes a file in the workspace
    NAME          日本語__x
      SOURCE      wide
      STATE       pending
      WHAT IT IS  \u{1b}[2Jevil
    ");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in 55..140 {
        for line in shown(Some(width), false).lines() {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    let painted = shown(Some(80), true);
    assert!(painted.contains("\u{1b}[32mready\u{1b}[0m"), "{painted:?}");
    assert!(painted.contains("\u{1b}[31mfailed\u{1b}[0m"), "{painted:?}");
    let mut plain = painted;
    for code in ["1", "2", "31", "32", "33", "0"] {
        plain = plain.replace(&format!("\u{1b}[{code}m"), "");
    }
    assert_eq!(plain, shown(Some(80), false));
}
