/** Starts a headless Chromium from an npm package, and checks pages in it. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import puppeteer, { type Page } from 'puppeteer-core';

const require = createRequire(import.meta.url);

export interface Browser {
  /** Opens an address. `requests` contains the addresses that the page has requested since then. */
  open(url: string, options?: OpenOptions): Promise<TestPage>;
  close(): Promise<void>;
}

interface OpenOptions {
  readonly colors?: 'light' | 'dark';
  readonly width?: number;
}

export interface TestPage {
  readonly page: Page;
  readonly requests: readonly string[];
  /** Script errors and violations of the content security policy. */
  readonly errors: readonly string[];
  /** Returns the visible texts of the elements that match a selector. */
  texts(selector: string): Promise<readonly string[]>;
}

/** The reason to skip browser tests, or `false` if a browser is available. */
export const noBrowser =
  process.env['CHROMIUM'] === undefined && `${process.platform} ${process.arch}` !== 'linux x64'
    ? 'the package has a Chromium for linux x64 only: set CHROMIUM to the path of a browser'
    : false;

export async function launchBrowser(): Promise<Browser> {
  const folder = await extractChromium();
  const browser = await puppeteer.launch({
    executablePath: process.env['CHROMIUM'] ?? join(folder, 'chromium'),
    headless: 'shell',
    // Containers have no user namespaces for the sandbox, which is not required because the pages come from this
    // repository.
    args: ['--no-sandbox', '--no-zygote', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars'],
    env: {
      ...process.env,
      // Fonts and libraries for machines that lack them. Those of the system take precedence.
      ...(existsSync('/etc/fonts/fonts.conf') ? {} : { FONTCONFIG_PATH: join(folder, 'fonts') }),
      LD_LIBRARY_PATH: `/lib/x86_64-linux-gnu:/usr/lib64:${join(folder, 'al2023/lib')}`,
    },
  });
  return {
    async open(url, { colors = 'light', width = 1280 } = {}) {
      const page = await browser.newPage();
      const requests: string[] = [];
      const errors: string[] = [];
      page.on('request', (request) => requests.push(request.url()));
      page.on('pageerror', (error) => errors.push(String(error)));
      page.on('console', (message) => {
        if (message.type() === 'error') errors.push(message.text());
      });
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: colors }]);
      await page.setViewport({ width, height: 800 });
      await page.goto(url);
      const texts = async (selector: string): Promise<readonly string[]> =>
        (await page.evaluate(
          `Array.from(document.querySelectorAll(${JSON.stringify(selector)}), (one) => one.innerText)`,
        )) as readonly string[];
      return { page, requests, errors, texts };
    },
    close: () => browser.close(),
  };
}

/** Extracts the browser once per package version. Returns the folder. */
async function extractChromium(): Promise<string> {
  const root = resolve(dirname(require.resolve('@sparticuz/chromium')), '..');
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  const folder = resolve(`node_modules/.cache/chromium-${version}`);
  if (existsSync(folder) || process.env['CHROMIUM'] !== undefined) return folder;
  const temporary = `${folder}.${process.pid}`;
  await mkdir(temporary, { recursive: true });
  // The package extracts its files to the folder for temporary files.
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = temporary;
  const { default: chromium, inflate } = await import('@sparticuz/chromium');
  await Promise.all([chromium.executablePath(), inflate(join(root, 'bin/al2023.tar.br'))]);
  if (TMPDIR === undefined) delete process.env['TMPDIR'];
  else process.env['TMPDIR'] = TMPDIR;
  await rename(temporary, folder).catch(() => rm(temporary, { recursive: true }));
  return folder;
}

/** Returns the serious and critical findings of axe-core, with the rule and the selectors of the elements. */
export async function findAccessibilityProblems(page: Page): Promise<readonly string[]> {
  await page.evaluate(await readFile(require.resolve('axe-core/axe.min.js'), 'utf8'));
  const problems =
    await page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).join(', ')))`);
  return problems as readonly string[];
}

/** Returns requests to addresses other than this machine, files and data URLs. */
export function findForeignRequests(requests: readonly string[]): readonly string[] {
  return requests.filter((url) => !/^(?:file:|data:|blob:|http:\/\/127\.0\.0\.1:)/.test(url));
}

/** Writes a screenshot for the documentation if `SCREENSHOTS` is set. */
export async function saveScreenshot(page: Page, name: string, height = 700): Promise<void> {
  if (process.env['SCREENSHOTS'] === undefined) return;
  await page.screenshot({ path: `docs/images/${name}.png`, clip: { x: 0, y: 0, width: 1280, height } });
}
