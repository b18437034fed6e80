//! What the README's lines ask, show and leave behind.

/// The password of the vault, of which every place has one that no other text is like.
const VAULT: &str = "correct-horse-4711";
const SECOND: &str = "battery-staple-0815";
const DISK: &str = "plain-sailing-1234";

/// What is answered to a question.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// A line that must not be shown.
    Secret(&'static str),
    /// A key, without the end of a line.
    Key(&'static str),
}

/// A line of the README, or one that its remarks speak of.
pub(super) struct Step {
    /// Without the remark.
    pub(super) line: &'static str,
    /// What is asked, in this order, and answered.
    pub(super) dialogue: &'static [(&'static str, Answer)],
    /// What has to be on the screen afterwards.
    pub(super) seen: &'static [&'static str],
    /// Shell commands that have to succeed afterwards.
    pub(super) then: &'static [&'static str],
    /// Lines that are typed besides, since the README's remark speaks of them.
    pub(super) besides: &'static [Step],
}

const fn step(line: &'static str) -> Step {
    Step { line, dialogue: &[], seen: &[], then: &[], besides: &[] }
}

const OPEN_VAULT: (&str, Answer) = ("Password of", Answer::Secret(VAULT));

const ASK_DISK: (&str, Answer) = ("Passphrase of", Answer::Secret(DISK));

/// All lines that are typed.
pub(super) const STEPS: &[Step] = &[
    Step {
        dialogue: &[("New password of", Answer::Secret(VAULT)), ("once more:", Answer::Secret(VAULT))],
        seen: &["The recovery key, shown this once:", "Made the vault", "Mount it with: strongroom mount"],
        then: &["test -d ~/vault/.strongroom"],
        besides: &[Step { seen: &["slot", "recovery"], ..step("strongroom info ~/vault") }],
        ..step("strongroom init ~/vault")
    },
    Step { then: &["test -d ~/plain"], ..step("mkdir ~/plain") },
    Step {
        dialogue: &[OPEN_VAULT],
        then: &["mountpoint -q ~/plain", "touch ~/plain/file && rm ~/plain/file"],
        ..step("strongroom mount ~/vault ~/plain")
    },
    Step {
        then: &["diff -r --no-dereference ~/Documents ~/plain/Documents", "! grep -rq stone ~/vault"],
        ..step("cp -a ~/Documents ~/plain/")
    },
    Step {
        seen: &["vault", "sealed with", "engine", "written", "in locked memory"],
        besides: &[
            Step { dialogue: &[("q ends", Answer::Key("q"))], ..step("strongroom status --watch ~/plain") },
            Step {
                then: &["grep -q 'schema.*strongroom.status/1' status.json"],
                ..step("strongroom status --json ~/plain > status.json")
            },
        ],
        ..step("strongroom status ~/plain")
    },
    step("strongroom sync ~/plain"),
    Step {
        then: &["! mountpoint -q ~/plain", "test -z \"$(ls ~/plain)\""],
        ..step("strongroom umount ~/plain")
    },
    Step {
        dialogue: &[
            OPEN_VAULT,
            ("New password of", Answer::Secret(SECOND)),
            ("once more:", Answer::Secret(SECOND)),
        ],
        seen: &["Added slot 2", "password", "recovery"],
        besides: &[Step { seen: &["slot", "recovery", "password"], ..step("strongroom key list ~/vault") }],
        ..step("strongroom key add ~/vault")
    },
    Step {
        seen: &["It opens with:", "recovery"],
        then: &["test -s vault-header.bak"],
        ..step("strongroom header backup ~/vault vault-header.bak")
    },
    Step {
        dialogue: &[("Password of", Answer::Secret(SECOND))],
        seen: &["Verified 2 files", "No damage found."],
        besides: &[Step {
            dialogue: &[OPEN_VAULT],
            seen: &["No damage found."],
            ..step("strongroom check --repair ~/vault")
        }],
        ..step("strongroom check ~/vault")
    },
    Step {
        dialogue: &[OPEN_VAULT],
        seen: &["Copied 2 files", "Everything was copied."],
        then: &["diff -r --no-dereference ~/Documents ~/out/Documents"],
        ..step("strongroom salvage ~/vault ~/out")
    },
    Step { seen: &["recommended here", "fuse-device", "self-tests"], ..step("strongroom doctor") },
    Step {
        seen: &["Measured in", "Kept in", "The fastest, for a block of 4 KiB and for 64 KiB:", "GB/s"],
        besides: &[
            Step { seen: &["profile: measured", "self-tests passed"], ..step("strongroom engines") },
            Step { seen: &["RATES on one CPU", "ENGINES"], ..step("strongroom report") },
        ],
        ..step("strongroom tune")
    },
    Step {
        seen: &["Written: report.html"],
        then: &["grep -q '</html>' report.html"],
        ..step("strongroom report -o report.html")
    },
    step("strongroom trace start ~/plain"),
    step("diff -r ~/Documents ~/plain/Documents"),
    Step {
        seen: &["requests in", "Written: work.trace"],
        then: &["test -s work.trace", "! grep -q picture work.trace"],
        ..step("strongroom trace stop ~/plain -o work.trace")
    },
    Step { seen: &["the model replays it", "speed", "CPU"], ..step("strongroom whatif work.trace") },
    Step {
        dialogue: &[("New passphrase of", Answer::Secret(DISK)), ("once more:", Answer::Secret(DISK))],
        seen: &["Made the disk", "LUKS2", "argon2id"],
        then: &["test $(stat -c %s backup.img) = 21474836480"],
        besides: &[
            Step { ..step("strongroom disk is-luks backup.img") },
            Step { seen: &["aes-xts-plain64"], ..step("strongroom disk info backup.img") },
        ],
        ..step("strongroom disk format backup.img --size 20GiB")
    },
    Step { then: &["test -d ~/disk"], ..step("mkdir ~/disk") },
    Step {
        dialogue: &[ASK_DISK],
        then: &["test -f ~/disk/volume", "head -c 512 ~/disk/volume | cmp -n 512 /dev/zero - || true"],
        besides: &[Step { seen: &["backup.img"], ..step("strongroom disk list") }],
        ..step("strongroom disk open backup.img --raw ~/disk")
    },
    Step {
        seen: &["/dev/loop"],
        then: &["test -b $(losetup --noheadings --output NAME --associated ~/disk/volume)"],
        ..step("sudo losetup --find --show ~/disk/volume")
    },
    step("sudo losetup --detach /dev/loop0"),
    Step {
        dialogue: &[ASK_DISK],
        then: &["test -f ~/disk/volume"],
        ..step("sudo strongroom disk open backup.img --raw ~/disk")
    },
    Step { then: &["! mountpoint -q ~/disk"], ..step("sudo strongroom disk close ~/disk") },
    Step { then: &["! mountpoint -q ~/disk"], ..step("strongroom disk close ~/disk") },
    Step {
        dialogue: &[ASK_DISK],
        then: &["test -S ~/disk.socket"],
        ..step("strongroom disk open backup.img --nbd ~/disk.socket")
    },
    Step { then: &["! test -e ~/disk.socket"], ..step("strongroom disk close ~/disk.socket") },
    Step {
        seen: &["age1"],
        then: &["test $(stat -c %a key.txt) = 600"],
        ..step("strongroom file keygen -o key.txt")
    },
    Step {
        then: &["test -s letter.pdf.age", "! grep -q 'not really' letter.pdf.age"],
        ..step("strongroom file encrypt -r age1... letter.pdf")
    },
    Step {
        then: &["cmp letter.pdf copy.pdf"],
        ..step("strongroom file decrypt -i key.txt -o copy.pdf letter.pdf.age")
    },
    Step {
        then: &["mountpoint -q ~/plain", "cmp letter.pdf ~/plain/letter.pdf"],
        ..step("strongroom file mount -i key.txt letter.pdf.age ~/plain")
    },
];

/// What lines begin with that a narrow terminal may break, with the reason.
pub(super) const BROKEN: &[(&str, &str)] =
    &[("Public key: age1", "the key is wider than the terminal wherever it begins")];

/// Lines that are not typed, with the reason.
pub(super) const SKIPS: &[(&str, &str)] = &[
    ("cargo build --release -p strongroom", "the program that is tried comes from it"),
    ("cargo xtask demo", "a suite of its own"),
    ("cargo xtask test", "this suite is a part of it"),
    ("cargo xtask dist", "it has a step of its own, and a test of what it packs"),
    ("cargo xtask book", "it has a test of its own"),
    ("strongroom doctor /mnt/nas", "no network store is mounted; `cargo xtask stores` tries eight kinds"),
];
