//! Giving up every right that the program must not have.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::sandbox::error::{Part, SandboxError};

/// Every capability set becomes empty, and none can come back through a file.
pub(super) fn drop_all() -> Result<(), SandboxError> {
    drop_capabilities().map_err(|error| SandboxError::build(Part::Capabilities, "drop", error))
}

fn drop_capabilities() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Past the last one that this kernel knows.
            Err(rustix::io::Errno::INVAL) if number > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    Ok(())
}
