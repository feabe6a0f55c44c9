/** Loaded before a program, sets its time of day wrong: `--import` this, with `CLOCK_SKEW_MS` in the environment. */
const skewMs = Number(process.env['CLOCK_SKEW_MS'] ?? '0');
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
