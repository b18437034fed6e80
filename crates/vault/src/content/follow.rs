//! Files that somebody else may be writing to: known in one state at a time,
//! and brought to the present one when they are opened, when they are asked
//! for their length, and when what is known of them cannot be read any more.

use std::sync::PoisonError;

use strongroom_store::{FileRef, NodeRef};

use super::{Content, Contents, Home, Opened};
use crate::error::{Damage, Error, Result, errno};
use crate::follow::{Follower, Version};

/// Of which state of a file its pages in memory are.
#[derive(Debug)]
pub(crate) struct Following {
    version: Version,
    /// How many pages have been loaded, and after how many of these the file
    /// still had this version.
    loaded: u64,
    confirmed: u64,
}

impl Following {
    /// Takes note of a page that has just been loaded.
    pub(super) fn note_loaded(&mut self) {
        self.loaded += 1;
    }
}

impl Content {
    /// Opens a stored file in one state of it.
    pub(super) fn open_following(
        contents: &Contents,
        follower: &Follower,
        opened: &Opened,
        home: Option<Home>,
    ) -> Result<Content> {
        follower.steadily(contents.context.pages(), &*opened.file, |version| {
            let content = Content::open_named(contents, &opened.node, &opened.file, home)?;
            // What it has loaded counts once the version has stayed.
            let following = Following { version: version.clone(), loaded: 0, confirmed: 0 };
            content.write_state().following = Some(following);
            Ok(content)
        })
    }

    /// What is in the journal alone of a file whose last name has been removed
    /// does not come home: what is found there may be older than what was seen.
    fn open_named(
        contents: &Contents,
        node: &NodeRef,
        file: &FileRef,
        home: Option<Home>,
    ) -> Result<Content> {
        if file.attributes()?.links == 0 {
            return Err(Error::Refused(errno::ESTALE));
        }
        let opened = Opened { node: NodeRef::clone(node), file: FileRef::clone(file), doubted: false };
        Content::open(contents, opened, home)
    }

    /// Does `attempt`, which reads what is known of the file and does not
    /// change it, so that all it has read is of one state.
    ///
    /// # Errors
    /// What `attempt` gives when nothing has changed; else as
    /// [`Follower::steadily`].
    pub(super) fn in_one_state<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let outcome = attempt();
        match &self.context.follower {
            Some(follower) if !self.emptied && (outcome.is_err() || !self.is_confirmed()) => {
                self.in_present_state(follower, attempt)
            }
            _ => outcome,
        }
    }

    /// Brings what is known of the file to its present state. False when it
    /// is to be opened anew: it had been committed by nobody.
    ///
    /// # Errors
    /// As for opening it.
    pub(crate) fn renew(&self, home: Option<Home>) -> Result<bool> {
        let Some(follower) = &self.context.follower else { return Ok(true) };
        if self.emptied {
            return Ok(false);
        }
        self.in_present_state(follower, || Ok(()))?;
        self.check_home(home)?;
        Ok(true)
    }

    fn in_present_state<T>(&self, follower: &Follower, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let (value, version, loaded) = follower.steadily(self.context.pages(), &*self.file, |version| {
            self.bring_to(version)?;
            let value = attempt()?;
            let loaded = self.read_state().following.as_ref().map_or(0, |following| following.loaded);
            Ok((value, version.clone(), loaded))
        })?;
        let mut state = self.write_state();
        if let Some(following) = state.following.as_mut().filter(|following| following.version == version) {
            following.confirmed = following.confirmed.max(loaded);
        }
        Ok(value)
    }

    fn is_confirmed(&self) -> bool {
        self.read_state().following.as_ref().is_none_or(|following| following.confirmed == following.loaded)
    }

    /// Opens the file anew, unless it is known in this version.
    fn bring_to(&self, version: &Version) -> Result<()> {
        let is_known = |following: &Following| following.version == *version;
        if self.read_state().following.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        let node = self.node.as_ref().ok_or(Error::Refused(errno::EIO))?;
        let anew = Content::open_named(&self.contents(), node, &self.file, None)?;
        if anew.id != self.id {
            return Err(Error::Damaged(Damage::Page("a file's header page has become another's")));
        }
        let mut state = anew.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let sequence = |state: &super::State| state.version().map(|version| version.sequence);
        if sequence(&state) < sequence(&self.read_state()) {
            return Err(Error::Damaged(Damage::Page(
                "a file has gone back to an older state while it was open",
            )));
        }
        // Others may read it before it is known to be of one state.
        state.following = Some(Following { version: version.clone(), loaded: 1, confirmed: 0 });
        *self.write_state() = state;
        Ok(())
    }
}
