//! Mean value analysis of a closed queueing network (Reiser and Lavenberg,
//! "Mean-Value Analysis of Closed Multichain Queuing Networks", JACM 27(2),
//! 1980): one station that serves one at a time, and a delay without a queue.

/// Work of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Demand {
    /// Time at the station, where others wait.
    pub(crate) station: f64,
    /// Time elsewhere, where nobody waits for anybody.
    pub(crate) delay: f64,
}

impl Demand {
    /// Requests a unit of time, with so many clients.
    pub(crate) fn throughput(self, clients: u32) -> f64 {
        let mut waiting = 0.0;
        let mut throughput = 0.0;
        for client in 1..=clients {
            let response = self.station * (1.0 + waiting);
            throughput = f64::from(client) / (response + self.delay);
            waiting = throughput * response;
        }
        throughput
    }

    /// The demand with which one client and `clients` have these throughputs;
    /// none where more clients have less than one, which no such network does,
    /// or more than `clients` times as much.
    pub(crate) fn fit(one: f64, clients: u32, of_all: f64) -> Option<Demand> {
        let total = 1.0 / one;
        let at = |share: f64| Demand { station: total * share, delay: total * (1.0 - share) };
        if of_all < at(1.0).throughput(clients) || of_all > at(0.0).throughput(clients) {
            return None;
        }
        // Throughput falls as the station's share grows.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if at(middle).throughput(clients) > of_all { low = middle } else { high = middle }
        }
        Some(at(high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_waits_for_nobody_and_many_fill_the_station() {
        let demand = Demand { station: 2.0, delay: 8.0 };
        assert_eq!(demand.throughput(1), 0.1);
        assert!((demand.throughput(1000) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn a_fit_gives_what_it_was_made_of() {
        let demand = Demand { station: 3.0, delay: 4.0 };
        let fit = Demand::fit(demand.throughput(1), 4, demand.throughput(4)).expect("a network");
        assert!((fit.station - 3.0).abs() < 1e-6 && (fit.delay - 4.0).abs() < 1e-6);
        assert_eq!(Demand::fit(10.0, 4, 9.0), None);
        assert_eq!(Demand::fit(10.0, 4, 41.0), None);
    }
}
