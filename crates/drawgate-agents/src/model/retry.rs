//! Which requests to a model are made again, and when.

use std::time::Duration;

use super::{ModelError, ModelErrorKind};

/// Requests for one step, the first included.
const TRIES: u32 = 5;
/// The longest first pause; each later one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A provider that asks for a longer pause has its error passed on instead.
const MOST_PATIENCE: Duration = Duration::from_mins(1);

/// How long to wait before the request is made again; `None` if it must not be. `failures` is how many
/// requests of the step have failed, this one included; `jitter`, from 0 to 1, is where in its range the
/// pause falls.
///
/// A stream that broke off or made no sense has cost something already, so that it is asked for again
/// only if it was the first failure.
#[must_use]
pub fn pause(error: &ModelError, failures: u32, jitter: f64) -> Option<Duration> {
    let tries = match error.kind {
        ModelErrorKind::Unreachable | ModelErrorKind::Unavailable | ModelErrorKind::RateLimited => {
            TRIES
        }
        ModelErrorKind::Broken | ModelErrorKind::Silent | ModelErrorKind::Malformed => 2,
        ModelErrorKind::Quota
        | ModelErrorKind::Key
        | ModelErrorKind::Rejected
        | ModelErrorKind::Context => 1,
    };
    if failures >= tries {
        return None;
    }
    let doublings = failures.saturating_sub(1).min(TRIES);
    let longest = FIRST_PAUSE.saturating_mul(1 << doublings);
    let pause = longest.mul_f64(jitter.clamp(0.0, 1.0));
    match error.retry_after {
        Some(asked) if asked > MOST_PATIENCE => None,
        Some(asked) => Some(asked.max(pause)),
        None => Some(pause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ModelErrorKind, retry_after: Option<u64>) -> ModelError {
        let retry_after = retry_after.map(Duration::from_secs);
        ModelError { retry_after, ..ModelError::new(kind, "failed") }
    }

    #[test]
    fn what_may_pass_is_tried_five_times_and_the_rest_once_or_never() {
        use ModelErrorKind::*;
        for (kind, tries) in [
            (Unreachable, 5),
            (Unavailable, 5),
            (RateLimited, 5),
            (Broken, 2),
            (Silent, 2),
            (Malformed, 2),
            (Quota, 1),
            (Key, 1),
            (Rejected, 1),
            (Context, 1),
        ] {
            let again = (1..20).take_while(|n| pause(&error(kind, None), *n, 0.5).is_some());
            assert_eq!(again.count() + 1, tries, "{kind:?}");
        }
    }

    #[test]
    fn pauses_double_and_fall_anywhere_below() {
        let pause = |failures, jitter| {
            let pause = pause(&error(ModelErrorKind::Unavailable, None), failures, jitter);
            pause.map(|pause| pause.as_millis())
        };
        for (failures, longest) in [(1, 500), (2, 1000), (3, 2000), (4, 4000)] {
            assert_eq!(pause(failures, 1.0), Some(longest));
            assert_eq!(pause(failures, 0.5), Some(longest / 2));
            assert_eq!(pause(failures, 0.0), Some(0));
        }
        assert_eq!(pause(1, 7.0), Some(500));
        assert_eq!(pause(0, 1.0), Some(500));
    }

    #[test]
    fn a_provider_may_ask_for_a_minute() {
        let pause =
            |asked, jitter| pause(&error(ModelErrorKind::RateLimited, Some(asked)), 1, jitter);
        assert_eq!(pause(60, 1.0), Some(Duration::from_mins(1)));
        assert_eq!(pause(61, 0.0), None);
        assert_eq!(pause(0, 1.0), Some(FIRST_PAUSE));
    }
}
