//! Masks: keystream made ahead of its data, so that sealing and opening are an
//! XOR and authentication when the data comes.
//!
//! A mask belongs to one nonce. Who orders one spends the nonce: it goes into
//! the [`Order`] by value and comes out inside of the [`Mask`], which one
//! [`Segment`](crate::Segment) takes by value. So no mask and no nonce is used
//! twice, and what is cancelled on the way is gone with both.
//!
//! A mask is a help, never a condition: an engine that has no use for one, or
//! redoes the work elsewhere, computes from the nonce and gets the same.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Instant;

use crate::{FreshNonce, Refusal, Session, StoredNonce};

/// Memory that holds one mask, wiped when it is dropped.
pub trait MaskMemory: Send + Sync {
    /// The mask, from its first byte on.
    fn bytes(&self) -> &[u8];
}

/// A nonce that a mask may be of: a fresh one to seal, a stored one to open.
pub trait MaskNonce: Send + sealed::Sealed {
    /// Its 24 bytes.
    fn to_bytes(&self) -> [u8; 24];
}

impl MaskNonce for FreshNonce {
    fn to_bytes(&self) -> [u8; 24] {
        self.bytes()
    }
}

impl MaskNonce for StoredNonce {
    fn to_bytes(&self) -> [u8; 24] {
        self.into_bytes()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::FreshNonce {}
    impl Sealed for crate::StoredNonce {}
}

/// Keystream of one nonce, with the nonce. Neither `Clone` nor `Copy`.
pub struct Mask<N> {
    nonce: N,
    memory: Box<dyn MaskMemory>,
}

impl<N: MaskNonce> Mask<N> {
    /// Bytes that it covers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.bytes().len()
    }

    /// True for one of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nonce that it is of.
    #[must_use]
    pub fn nonce(&self) -> &N {
        &self.nonce
    }

    pub(crate) fn into_parts(self) -> (N, Box<dyn MaskMemory>) {
        (self.nonce, self.memory)
    }
}

impl<N> std::fmt::Debug for Mask<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({} bytes)", self.memory.bytes().len())
    }
}

/// One message whose mask is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its nonce. Whoever makes one answers for the nonce being spent, which
    /// [`Order`] does.
    pub nonce: [u8; 24],
    /// Bytes from the first of its data on.
    pub len: usize,
}

/// Making keystream ahead. An [`Engine`](crate::Engine) that has it says so by
/// [`Engine::masking`](crate::Engine::masking).
pub trait Masking: Send + Sync {
    /// Begins with the masks of all `messages`, and does not wait.
    ///
    /// # Errors
    /// Why not: busy, when the queue is full or too much memory is lent;
    /// unsupported for another algorithm, or more than it takes at once.
    fn order(&self, session: &Session, messages: &[Message]) -> Result<MaskTicket, Refusal>;

    /// Whether masks are worth ordering for this session, as it looks now.
    fn decide(&self, session: &Session) -> Decision;

    /// Changes whenever [`Masking::decide`] may answer otherwise than before, or
    /// masks made until now are no longer believed and have to be dropped.
    fn version(&self) -> u64;
}

/// Whether masks are ordered for a session, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// They are.
    pub is_on: bool,
    /// The reason, as a clause for people: `the CPU checks every one (check=1)`.
    pub reason: String,
}

/// The masks will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotMade;

type Made = Result<Vec<Box<dyn MaskMemory>>, NotMade>;
type Check = Box<dyn FnOnce(Made) -> Made + Send>;

/// The promise of masks. Dropped, they are made all the same, and wiped.
#[must_use = "masks that nobody waits for are wasted"]
pub struct MaskTicket {
    made: Receiver<Made>,
    checks: Vec<Check>,
    deadline: Option<Instant>,
}

/// The engine's end of a [`MaskTicket`]. Dropped unanswered, it tells that the
/// masks will not come.
pub struct MaskCompleter(Sender<Made>);

impl MaskTicket {
    /// To be completed later, from any thread.
    pub fn pending() -> (MaskTicket, MaskCompleter) {
        let (completer, made) = channel();
        (MaskTicket { made, checks: Vec::new(), deadline: None }, MaskCompleter(completer))
    }

    /// With a step between the answer and whoever takes it, on that thread; at
    /// `deadline` the answer is that there will be none.
    pub fn checked(
        mut self,
        deadline: Instant,
        check: impl FnOnce(Made) -> Made + Send + 'static,
    ) -> MaskTicket {
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        self.checks.push(Box::new(check));
        self
    }

    /// The answer, if it is there.
    fn poll(&mut self) -> Option<Made> {
        let made = match self.made.try_recv() {
            Ok(made) => made,
            Err(TryRecvError::Disconnected) => Err(NotMade),
            Err(TryRecvError::Empty) if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                Err(NotMade)
            }
            Err(TryRecvError::Empty) => return None,
        };
        Some(self.checks.drain(..).fold(made, |made, check| check(made)))
    }
}

impl MaskCompleter {
    /// Hands the masks over, one for each message and in their order.
    pub fn complete(self, made: Vec<Box<dyn MaskMemory>>) {
        // Where nobody waits any more they are dropped, and wiped.
        drop(self.0.send(Ok(made)));
    }
}

/// Masks to come, with the nonces that they are of.
#[must_use = "the nonces of an order are spent"]
pub struct Order<N> {
    messages: Vec<(N, usize)>,
    ticket: MaskTicket,
}

impl<N: MaskNonce> Order<N> {
    /// Orders the masks of messages: of each the nonce and its bytes.
    ///
    /// # Errors
    /// As [`Masking::order`]. The nonces are gone all the same, so that nobody
    /// has to think about it.
    pub fn place(
        masking: &dyn Masking,
        session: &Session,
        messages: Vec<(N, usize)>,
    ) -> Result<Order<N>, Refusal> {
        let wanted: Vec<Message> =
            messages.iter().map(|(nonce, len)| Message { nonce: nonce.to_bytes(), len: *len }).collect();
        let ticket = masking.order(session, &wanted)?;
        Ok(Order { messages, ticket })
    }

    /// Bytes of all its masks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(|(_, len)| len).sum()
    }

    /// The masks, if they are there; none where they could not be made.
    ///
    /// # Errors
    /// The order, where they are still being made.
    pub fn poll(mut self) -> Result<Vec<Mask<N>>, Order<N>> {
        let Some(made) = self.ticket.poll() else { return Err(self) };
        // An engine that makes something else than was ordered has made nothing.
        let made = made.unwrap_or_default();
        let is_whole = made.len() == self.messages.len()
            && made.iter().zip(&self.messages).all(|(memory, (_, len))| memory.bytes().len() >= *len);
        if !is_whole {
            return Ok(Vec::new());
        }
        let masks = self.messages.into_iter().zip(made);
        Ok(masks.map(|((nonce, _), memory)| Mask { nonce, memory }).collect())
    }
}

impl<N> std::fmt::Debug for Order<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Order({} masks)", self.messages.len())
    }
}

/// The mask that a segment brings. A copy of the batch has none: it is computed
/// from the nonces.
#[derive(Default)]
pub(crate) struct Brought(pub(crate) Option<Box<dyn MaskMemory>>);

impl std::fmt::Debug for Brought {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Brought" } else { "None" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::{Aead, Algorithm, AssociatedData, Batch, Buffer, NonceSource, Operation, Segment};

    struct Bytes(Vec<u8>);

    impl MaskMemory for Bytes {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
    }

    /// Keeps what it is asked for until it is told to answer.
    #[derive(Default)]
    struct Postpones(Mutex<Vec<(MaskCompleter, Vec<Message>)>>);

    impl Postpones {
        fn answer(&self, short_by: usize) {
            let (completer, messages) = self.0.lock().unwrap().remove(0);
            let made = messages.iter().map(|message| {
                Box::new(Bytes(vec![message.nonce[23]; message.len - short_by])) as Box<dyn MaskMemory>
            });
            completer.complete(made.collect());
        }
    }

    impl Masking for Postpones {
        fn order(&self, _: &Session, messages: &[Message]) -> Result<MaskTicket, Refusal> {
            let (ticket, completer) = MaskTicket::pending();
            self.0.lock().unwrap().push((completer, messages.to_vec()));
            Ok(ticket)
        }

        fn decide(&self, _: &Session) -> Decision {
            Decision { is_on: true, reason: String::new() }
        }

        fn version(&self) -> u64 {
            0
        }
    }

    fn session() -> Session {
        Session::new(Algorithm::Aead(Aead::XAes256Gcm), Arc::new(()))
    }

    fn place(device: &Postpones, count: usize) -> Order<FreshNonce> {
        let mut nonces = NonceSource::new().unwrap().batch(4096).unwrap();
        Order::place(device, &session(), (0..count).map(|_| (nonces.draw(), 64)).collect()).unwrap()
    }

    #[test]
    fn a_mask_comes_with_the_nonce_that_was_ordered() {
        let device = Postpones::default();
        let order = place(&device, 3);
        let asked: Vec<[u8; 24]> =
            device.0.lock().unwrap()[0].1.iter().map(|message| message.nonce).collect();
        let order = order.poll().expect_err("nothing was made yet");
        assert_eq!(order.bytes(), 192);
        device.answer(0);
        let masks = order.poll().expect("they are there");
        let got: Vec<[u8; 24]> = masks.iter().map(|mask| mask.nonce().bytes()).collect();
        assert_eq!(got, asked);
        for (mask, nonce) in masks.into_iter().zip(asked) {
            let segment = Segment::seal_masked(0, 60, mask, AssociatedData::new(&[]));
            let mut batch = Batch::new(Operation::Seal, Buffer::new(60), vec![segment]);
            let copies = [batch.duplicate(), batch.part(0..1, 1)];
            assert!(copies.iter().all(|copy| !copy.has_masks()), "a copy is computed");
            assert!(copies.iter().all(|copy| copy.segments[0].nonce() == &nonce));
            let segment = &mut batch.segments[0];
            assert_eq!(segment.nonce(), &nonce);
            assert_eq!(segment.take_mask().unwrap().bytes()[0], nonce[23]);
            assert!(segment.take_mask().is_none(), "and once");
        }
    }

    #[test]
    fn what_was_not_made_whole_was_not_made() {
        let device = Postpones::default();
        let order = place(&device, 2);
        device.answer(1);
        assert_eq!(order.poll().expect("an answer").len(), 0);
        let order = place(&device, 2);
        drop(device.0.lock().unwrap().remove(0));
        assert_eq!(order.poll().expect("an answer").len(), 0);
    }

    #[test]
    fn checks_see_the_answer_and_a_deadline_is_one() {
        let far = Instant::now() + Duration::from_secs(3600);
        let (ticket, completer) = MaskTicket::pending();
        let mut ticket = ticket.checked(far, |made| made.and(Err(NotMade)));
        assert!(ticket.poll().is_none());
        completer.complete(Vec::new());
        assert!(ticket.poll().is_some_and(|made| made.is_err()));
        let (ticket, _completer) = MaskTicket::pending();
        let mut ticket = ticket.checked(Instant::now(), |made| made);
        assert!(ticket.poll().is_some_and(|made| made.is_err()));
    }

    #[test]
    fn a_mask_helps_to_open_what_it_is_of_and_nothing_else() {
        let device = Postpones::default();
        let (one, other) = (StoredNonce::new([1; 24]), StoredNonce::new([2; 24]));
        let messages = vec![(one, 64), (one, 64), (other, 64)];
        let order = Order::place(&device, &session(), messages).unwrap();
        device.answer(0);
        let masks = order.poll().expect("they are there");
        let open = |len| Segment::open(0, len, one, AssociatedData::new(&[]), [0; 16]);
        let brings = masks.into_iter().zip([64, 65, 64]).map(|(mask, len)| {
            let mut segment = open(len);
            segment.bring(mask);
            segment.has_mask()
        });
        assert_eq!(brings.collect::<Vec<_>>(), [true, false, false]);
    }
}
