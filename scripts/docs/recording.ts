/** Records commands in a terminal as an animated SVG image. The image shows all text if nothing animates it. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';

export const RECORDING = 'docs/images/check-fix.svg';

const MANIFEST = 'examples/pods/host-network.yaml';
const COMMANDS = ['', ' --fix', ''].map((fix) => `check ${basename(MANIFEST)} --level baseline${fix}`);

const COLUMNS = 100;
const FONT_PX = 14;
/** Width of a character in most monospace fonts. */
const CHARACTER_PX = 0.6 * FONT_PX;
const LINE_PX = 20;
const PADDING_PX = 16;
/** Delay between commands, and before the animation repeats. */
const STEP_SECONDS = 4;

/** Runs the commands on a copy of the manifest, and returns the image. */
export async function recordCheckFix(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  try {
    await cp(MANIFEST, join(folder, basename(MANIFEST)));
    const steps: string[][] = [];
    for (const command of COMMANDS)
      steps.push([`$ portcullis ${command}`, ...wrap(await runCommand(command, folder)), '']);
    return render(steps);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Returns the text that a terminal shows, which is the messages on standard error followed by the output. */
function runCommand(command: string, cwd: string): Promise<string> {
  return new Promise((done) => {
    execFile(process.execPath, [resolve('src/main.ts'), ...command.split(' ')], { cwd }, (_error, stdout, stderr) =>
      done(stderr + stdout),
    );
  });
}

/** Wraps lines to the width of the terminal. Continuation lines keep the indentation of their line. */
function wrap(text: string): readonly string[] {
  return text
    .trimEnd()
    .split('\n')
    .flatMap((line) => {
      const indent = /^(?: {20,}(?:Fix: )?)?/.exec(line)?.[0].length ?? 0;
      const lines = [''];
      for (const [word] of line.matchAll(/ *\S+/g)) {
        const last = `${lines.at(-1)}${word}`;
        if (last.length <= COLUMNS) lines.splice(-1, 1, last);
        else lines.push(`${' '.repeat(indent)}${word.trimStart()}`);
      }
      return lines;
    });
}

function render(steps: readonly (readonly string[])[]): string {
  const count = steps.flat().length;
  const width = COLUMNS * CHARACTER_PX + 2 * PADDING_PX;
  const height = count * LINE_PX + PADDING_PX;
  let row = 0;
  const groups = steps.map((lines, step) => {
    const texts = lines.map((line) => {
      row += 1;
      return line === ''
        ? ''
        : `<text x="${PADDING_PX}" y="${row * LINE_PX + PADDING_PX / 2}"${tone(line)}>${escape(line)}</text>\n`;
    });
    return `<g class="step${step}">\n${texts.join('')}</g>\n`;
  });
  const title = COMMANDS.map((command) => `portcullis ${command}`).join(', ');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${title}</title>
<style>
svg { --back: #fff; --text: #1f2328; --bad: #b3261e; --ok: #1a7032; }
rect { fill: var(--back); stroke: #8886; }
text { fill: var(--text); font: ${FONT_PX}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre; }
.command { font-weight: bold; }
.bad { fill: var(--bad); }
.ok { fill: var(--ok); }
@media (prefers-color-scheme: dark) {
svg { --back: #0d1117; --text: #e6edf3; --bad: #ff8a80; --ok: #6fdd8b; }
}
@media (prefers-reduced-motion: no-preference) {
${steps.map((_, step) => animation(step, steps.length)).join('')}}
</style>
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
${groups.join('')}</svg>
`;
}

/** Shows the lines of a step from the start of the step until the animation repeats. */
function animation(step: number, steps: number): string {
  if (step === 0) return '';
  const start = (step / (steps + 1)) * 100;
  return `.step${step} { animation: step${step} ${(steps + 1) * STEP_SECONDS}s infinite; }
@keyframes step${step} { 0%, ${start}% { opacity: 0 } ${start + 1}%, 100% { opacity: 1 } }
`;
}

function tone(line: string): string {
  if (line.startsWith('$ ')) return ' class="command"';
  if (/^\d+ passed/.test(line)) return line.endsWith(' 0 failed') ? ' class="ok"' : ' class="bad"';
  return '';
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
