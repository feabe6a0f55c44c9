/** Imported by a process under test. Writes the longest turn of its event loop in milliseconds to a file. */
import { writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const file = process.env['LOOP_DELAY_FILE'];
if (isMainThread && file !== undefined) {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  // Loading modules at startup is not part of the measurement.
  setTimeout(() => delay.reset(), 3000).unref();
  setInterval(() => writeFileSync(file, String(Math.round(delay.max / 1e6))), 250).unref();
}
