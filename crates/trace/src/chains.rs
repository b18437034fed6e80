//! Which request followed which.

use crate::{Kind, Record};

/// Most chains. Daemons have fewer threads; a trace that claims more may have
/// been made by anybody.
const CHAINS_MAX: usize = 256;

/// The records' places in chains, in each of which one request begins after the
/// one before it was answered. As many chains as there were requests at once.
/// Records have to be in the order in which they began.
///
/// A request follows the last of its caller where that is free, and else
/// whichever was answered last: the kernel's own requests, and those that wait for
/// what others have written, belong to no caller.
#[must_use]
pub fn chains(records: &[Record]) -> Vec<Vec<usize>> {
    let mut chains: Vec<Vec<usize>> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let last = |chain: &Vec<usize>| &records[*chain.last().expect("a chain has a request")];
        let free = || chains.iter().enumerate().filter(|(_, chain)| last(chain).end_ns() <= record.start_ns);
        let own = || {
            let of_caller = free().filter(|(_, chain)| last(chain).caller == record.caller);
            of_caller.max_by_key(|(_, chain)| last(chain).end_ns())
        };
        let latest = || free().max_by_key(|(_, chain)| last(chain).end_ns());
        let has_own = record.caller != 0 && record.kind != Kind::Durable;
        let followed = if has_own { own().or_else(latest) } else { latest() };
        match followed.map(|(chain, _)| chain) {
            Some(chain) => chains[chain].push(at),
            None if chains.len() < CHAINS_MAX => chains.push(vec![at]),
            None => {
                let soonest = (0..chains.len()).min_by_key(|chain| last(&chains[*chain]).end_ns());
                chains[soonest.expect("there are many")].push(at);
            }
        }
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::request;

    #[test]
    fn one_caller_is_one_chain_and_two_at_once_are_two() {
        let alone: Vec<_> = (0..10).map(|at| request(at * 100, 60, 1, Kind::Read)).collect();
        assert_eq!(chains(&alone), [(0..10).collect::<Vec<_>>()]);
        // The second caller's requests lie across the first one's.
        let both: Vec<_> = (0..10).map(|at| request(at * 50, 60, 1 + (at % 2) as u16, Kind::Read)).collect();
        assert_eq!(chains(&both), [vec![0, 2, 4, 6, 8], vec![1, 3, 5, 7, 9]]);
    }

    #[test]
    fn a_caller_keeps_its_chain_although_another_was_answered_later() {
        let records = [
            request(0, 60, 1, Kind::Read),
            request(10, 60, 2, Kind::Read),
            request(100, 60, 1, Kind::Read),
            request(110, 60, 2, Kind::Read),
        ];
        assert_eq!(chains(&records), [vec![0, 2], vec![1, 3]]);
    }

    #[test]
    fn a_trace_of_requests_that_never_end_has_no_more_chains_than_there_may_be() {
        let records: Vec<_> = (0..1000).map(|at| request(at, u32::MAX, 1, Kind::Read)).collect();
        let found = chains(&records);
        assert_eq!((found.len(), found.iter().map(Vec::len).sum::<usize>()), (CHAINS_MAX, 1000));
    }

    #[test]
    fn what_waits_for_others_follows_whoever_was_answered_last() {
        let records = [
            request(0, 500, 1, Kind::Write),
            request(0, 100, 0, Kind::Write),
            request(200, 250, 0, Kind::Write),
            request(510, 50, 2, Kind::Durable),
            request(600, 50, 0, Kind::Write),
        ];
        assert_eq!(chains(&records), [vec![0, 3, 4], vec![1, 2]]);
    }
}
