/** Shifts the time of a program by `CLOCK_SKEW_MS`, and by `CLOCK_JUMP_MS` on SIGUSR2. Load it with `--import`. */
let skewMs = Number(process.env['CLOCK_SKEW_MS'] ?? '0');
process.on('SIGUSR2', () => (skewMs += Number(process.env['CLOCK_JUMP_MS'] ?? '0')));
const RealDate = Date;

globalThis.Date = class extends RealDate {
  constructor(...args: readonly unknown[]) {
    if (args.length === 0) super(RealDate.now() + skewMs);
    else super(...(args as [number]));
  }

  static override now(): number {
    return RealDate.now() + skewMs;
  }
} as DateConstructor;
