//! `report`.

use std::path::PathBuf;

use clap::Args;

use super::values::ENGINE;

/// Options of `report`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
It says which suite and engine to take here and what is slow, and what these
words come from: engines and their self-tests, what `tune` has measured, what
each mount does, what durability costs, and the model's predictions beside
measurements. The page needs no script and nothing from elsewhere. It names
vaults, mount points and images, as `status` does, and no file.

Examples:
  strongroom tune                      first: it measures the engines
  strongroom report                    on the terminal
  strongroom report -o report.html     as a page for a browser, or to print
  strongroom report --store ~/vault -o report.html

--store writes up to 4 MiB into a file without a name in DIR, which goes when
it is done, and takes about two seconds.

The exit code is 6 when a self-test failed.")]
pub(crate) struct ReportArgs {
    /// Write one page of HTML, in place of what is there
    #[arg(short = 'o', long = "output", value_name = "FILE.html")]
    pub(crate) file: Option<PathBuf>,
    /// Measure what a barrier costs on the file system of DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Of these engines, as `mount --engine` names them, the profile is taken [default: auto]
    #[arg(long, value_name = "NAME", value_parser = ENGINE, hide_possible_values = true)]
    pub(crate) engine: Option<String>,
}
