//! Passes on what Python is built for: without a GIL a dict may change while it is read.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
