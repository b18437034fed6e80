//! The provider as programs meet it: loaded by a configuration, asked through OpenSSL's EVP interface, by
//! `openssl enc`, and by both ends of TLS connections. Python drives OpenSSL's own library by ctypes
//! (`python/evp.py`). OpenSSL 3, Python 3 and curl have to be here.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What cargo has built beside this test.
fn library() -> PathBuf {
    let directory = std::env::current_exe().expect("a test knows its place");
    let directory = directory.parent().expect("in a directory");
    let library = directory.join("libstrongroom_provider.so");
    assert!(library.is_file(), "{} is built with the tests", library.display());
    library
}

/// A directory with a configuration that chooses the provider, and one that does not.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = tempfile::tempdir().expect("a directory");
        let with = format!(
            "openssl_conf = main\n\
             [main]\nproviders = providers\nalg_section = algorithms\n\
             [algorithms]\ndefault_properties = ?provider=strongroom\n\
             [providers]\nstrongroom = strongroom_part\ndefault = default_part\n\
             [strongroom_part]\nmodule = {}\nactivate = 1\n\
             [default_part]\nactivate = 1\n\
             [req]\ndistinguished_name = names\n[names]\n",
            library().display()
        );
        fs::write(place.path().join("with.cnf"), with).expect("written");
        fs::write(place.path().join("without.cnf"), "[req]\ndistinguished_name = names\n[names]\n")
            .expect("written");
        Place(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a program with one of the configurations.
    fn run(&self, config: &str, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .env("OPENSSL_CONF", self.path(config))
            .current_dir(self.0.path())
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    fn python(&self, script: &str, arguments: &[&str]) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
        let script = directory.join(script).display().to_string();
        let done = self.run("with.cnf", "python3", &[&["-B", &script][..], arguments].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(done.status.success(), "{script}: {}{}", text(&done.stdout), text(&done.stderr));
        println!("{}", text(&done.stdout).trim_end());
    }
}

#[test]
fn every_call_comes_to_what_openssl_itself_comes_to() {
    Place::new().python("same_as_default.py", &["25"]);
}

#[test]
fn forks_threads_errors_and_fall_through() {
    Place::new().python("forks_and_threads.py", &[]);
}

#[test]
fn messages_go_both_ways_with_another_openssl() {
    Place::new().python("cryptography_both_ways.py", &[]);
}

#[test]
fn tls_transfers() {
    let place = Place::new();
    let [with, without] = ["with.cnf", "without.cnf"].map(|name| place.path(name).display().to_string());
    place.python("tls.py", &[&with, &without, &place.0.path().display().to_string()]);
}

#[test]
fn openssl_enc_writes_and_reads_the_same_with_and_without() {
    let place = Place::new();
    for (at, len) in [0, 1, 15, 16, 17, 4095, 4096, 70_001].into_iter().enumerate() {
        let plain: Vec<u8> = (0..len).map(|byte| (byte * 31 + at) as u8).collect();
        fs::write(place.path("plain"), &plain).expect("written");
        for cipher in
            ["aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "aes-128-ctr", "aes-192-ctr", "aes-256-ctr"]
        {
            for (sealer, opener) in [("with.cnf", "without.cnf"), ("without.cnf", "with.cnf")] {
                for (config, way, from, to) in
                    [(sealer, "-e", "plain", "sealed"), (opener, "-d", "sealed", "opened")]
                {
                    let name = format!("-{cipher}");
                    let arguments =
                        ["enc", &name, way, "-pbkdf2", "-iter", "10", "-k", "word", "-in", from, "-out", to];
                    let done = place.run(config, "openssl", &arguments);
                    assert!(
                        done.status.success(),
                        "{cipher} {way}: {}",
                        String::from_utf8_lossy(&done.stderr)
                    );
                }
                assert!(fs::read(place.path("opened")).expect("there") == plain, "{cipher}, {len} bytes");
            }
        }
    }
}

/// It may be loaded into a program that has any libcrypto, linked in any way: it neither needs one nor
/// shows symbols that one would take for its own.
#[test]
fn libcrypto_is_neither_linked_nor_shown() {
    let place = Place::new();
    let library = library().display().to_string();
    let needed = place.run("without.cnf", "ldd", &[&library]);
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    assert!(needed.contains("libc.so"), "{needed}");
    assert!(!needed.contains("libcrypto") && !needed.contains("libssl"), "{needed}");
    let symbols = place.run("without.cnf", "nm", &["--dynamic", "--extern-only", &library]);
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let shown: Vec<&str> =
        symbols.lines().filter(|line| !line.contains(" U ") && !line.contains(" w ")).collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0].ends_with(" OSSL_provider_init"), "{shown:?}");
    let taken =
        |name: &str| ["EVP_", "OSSL_", "CRYPTO_", "OPENSSL_"].iter().any(|start| name.starts_with(start));
    let wanted = symbols.lines().filter_map(|line| line.split_once(" U ")).map(|(_, name)| name);
    assert_eq!(wanted.filter(|name| taken(name)).collect::<Vec<_>>(), [""; 0]);
}
