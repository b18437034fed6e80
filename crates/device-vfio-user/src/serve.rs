//! The vfio-user side: a socket, and what a driver asks over it.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use strongroom_engine_virtio::Memory;
use strongroom_engine_virtio::spec::CONFIG_LEN;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
    vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

use crate::function::Function;
use crate::registers::{BAR_LEN, VECTORS, config_space};
use crate::{Model, unit};

/// Serves one driver after the other at a socket, a function anew for each.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(socket: &Path, model: &Model) -> io::Result<()> {
    let region = |index: u32| {
        let size = match index {
            VFIO_PCI_BAR0_REGION_INDEX => BAR_LEN,
            VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_LEN as u64,
            _ => 0,
        };
        let flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
        let argsz = size_of::<vfio_region_info>() as u32;
        let region_info = vfio_region_info { argsz, index, size, flags, ..vfio_region_info::default() };
        ServerRegion { region_info, sparse_areas: Vec::new(), mmap_fd: None }
    };
    let irq = |index: u32| IrqInfo {
        index,
        count: if index == VFIO_PCI_MSIX_IRQ_INDEX { VECTORS.into() } else { 0 },
        flags: VFIO_IRQ_INFO_EVENTFD,
    };
    let (irqs, regions) = ((0..VFIO_PCI_NUM_IRQS).map(irq), (0..VFIO_PCI_NUM_REGIONS).map(region));
    let server = Server::from_owned_fd(listening(socket)?.into(), true, irqs.collect(), regions.collect());
    loop {
        let function = Arc::new(Function::new(model));
        let units: Vec<_> = (0..model.units.max(1))
            .map(|_| {
                let function = Arc::clone(&function);
                std::thread::spawn(move || unit::work(&function))
            })
            .collect();
        if let Err(error) = server.run(&mut Backend(Arc::clone(&function))) {
            eprintln!("a driver's connection has ended: {error}");
        }
        function.state().is_over = true;
        function.changed.notify_all();
        for unit in units {
            let _ = unit.join();
        }
    }
}

/// A socket that is there only once it takes connections: who waits for its
/// file may connect at once.
fn listening(socket: &Path) -> io::Result<UnixListener> {
    if socket.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut early = socket.as_os_str().to_owned();
    early.push(".new");
    let listener = UnixListener::bind(&early)?;
    std::fs::rename(early, socket)?;
    Ok(listener)
}

struct Backend(Arc<Function>);

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.fill(0);
        match region {
            VFIO_PCI_BAR0_REGION_INDEX => self.0.state().registers.read(offset, bytes),
            VFIO_PCI_CONFIG_REGION_INDEX => {
                let space = config_space();
                let part = space.get(offset as usize..).unwrap_or(&[]);
                let len = part.len().min(bytes.len());
                bytes[..len].copy_from_slice(&part[..len]);
            }
            _ => {}
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if region == VFIO_PCI_BAR0_REGION_INDEX { self.0.write(offset, bytes) } else { Ok(()) }
    }

    fn dma_map(
        &mut self,
        _flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        let file = file.ok_or_else(|| io::Error::other("memory comes with a file"))?;
        let memory = Memory::map(file, offset, address, size as usize)?;
        self.0.state().memories.push(Arc::new(memory));
        Ok(())
    }

    fn dma_unmap(&mut self, _flags: DmaUnmapFlags, address: u64, _size: u64) -> io::Result<()> {
        self.0.state().memories.retain(|memory| memory.base() != address);
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.0.state().reset();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        _flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        if index == VFIO_PCI_MSIX_IRQ_INDEX && start + count <= VECTORS.into() {
            let mut state = self.0.state();
            state.interrupts.resize_with(VECTORS.into(), || None);
            for (vector, file) in (start as usize..).zip(files) {
                state.interrupts[vector] = Some(file);
            }
        }
        Ok(())
    }
}
