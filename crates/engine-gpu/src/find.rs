//! Which devices there are, and what is missing where there are none.

use std::sync::{Arc, OnceLock};

use crate::engine::GpuEngine;
use crate::platform::{Api, Device, Info};
use crate::{Options, sys};

/// A device that was found, and the name that it is asked for by.
#[derive(Clone)]
pub struct Found {
    /// `gpu-0`, `gpu-1` and so on; `opencl-cpu-0` and so on for OpenCL drivers that compute on the CPU.
    pub name: String,
    /// What is known of it.
    pub info: Info,
    device: Arc<dyn Device>,
}

/// What there is.
#[derive(Clone, Default)]
pub struct Survey {
    /// The devices, CUDA's first, those of no GPU last.
    pub devices: Vec<Found>,
    /// What is missing, and what would give it: a sentence for each.
    pub missing: Vec<String>,
}

const STATIC: &str = "a static program cannot open a GPU's driver: the Debian package can, and so can what cargo builds \
    for this system's own C library";

/// Looks for devices. Libraries are opened the first time, and stay open; a static program opens none.
#[must_use]
pub fn survey() -> &'static Survey {
    static SURVEY: OnceLock<Survey> = OnceLock::new();
    SURVEY.get_or_init(|| {
        // Known while compiling, so that neither the kernels nor what calls a driver is in a static program.
        if cfg!(target_feature = "crt-static") {
            return Survey { devices: Vec::new(), missing: vec![STATIC.to_owned()] };
        }
        let (cuda, opencl) = (sys::open_cuda(), sys::open_opencl());
        let missing = cuda.missing.into_iter().chain(opencl.missing).collect();
        Survey { devices: named(cuda.devices.into_iter().chain(opencl.devices)), missing }
    })
}

fn named(devices: impl Iterator<Item = Box<dyn Device>>) -> Vec<Found> {
    let mut devices: Vec<Arc<dyn Device>> = devices.map(Arc::from).collect();
    // NVIDIA's GPUs come by both ways.
    let has_cuda = devices.iter().any(|device| device.info().api == Api::Cuda);
    devices.retain(|device| {
        let info = device.info();
        !(has_cuda && info.api == Api::OpenCl && info.driver.starts_with("NVIDIA"))
    });
    devices.sort_by_key(|device| (!device.info().is_gpu, device.info().api));
    let gpus = devices.iter().filter(|device| device.info().is_gpu).count();
    let name = |at: usize| if at < gpus { format!("gpu-{at}") } else { format!("opencl-cpu-{}", at - gpus) };
    let found = devices.into_iter().enumerate();
    found.map(|(at, device)| Found { name: name(at), info: device.info().clone(), device }).collect()
}

impl Survey {
    /// The device of this name.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<&Found> {
        self.devices.iter().find(|found| found.name == name)
    }

    /// Those that are GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = &Found> {
        self.devices.iter().filter(|found| found.info.is_gpu)
    }
}

impl Found {
    /// The engine of this device; its threads start now.
    #[must_use]
    pub fn engine(&self, options: Options) -> GpuEngine {
        GpuEngine::on(self.name.clone(), Arc::clone(&self.device), options)
    }
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found").field("name", &self.name).field("info", &self.info).finish_non_exhaustive()
    }
}
