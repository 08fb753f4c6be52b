//! Tests that need a separate process: `decade` looks at the threads of nodes in its process to see whether one waits
//! for a processor, and threads of other tests would keep it waiting.

mod decade;
