//! Prints `docs/papers.md`.

fn main() {
    print!("{}", strongroom_papers::page::write());
}
