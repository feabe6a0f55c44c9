import { readFile } from 'node:fs/promises';
import { format } from 'oxfmt';
import packageJson from '../../package.json' with { type: 'json' };
import { isReserved, REPOSITORY } from '../../src/cli/command.ts';
import { COMMANDS } from '../../src/cli/program.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { formatAlertReference } from './alerts.ts';
import { formatChartReference } from './charts.ts';
import { formatCheckPages } from './checks.ts';
import { formatControllerReference } from './controllers.ts';
import { formatResourceReference, replaceSettingsTable, SETTINGS_PAGE } from './custom-resources.ts';
import { printFlagReference } from './flags.ts';
import { formatKrewManifest } from './krew.ts';
import { formatLibraryReference } from './library.ts';
import { formatMetricReference } from './metrics.ts';
import { formatPodSecurityPage, POD_SECURITY_PAGE } from './pod-security.ts';
import { RECORDING, recordCheckFix } from './recording.ts';
import { formatStatesPage, STATES_PAGE } from './states.ts';
import { formatSupportReference } from './support.ts';
import { formatWebhookReference } from './webhooks.ts';

/** Returns the generated documents by path. */
export async function references(): Promise<ReadonlyMap<string, string>> {
  const documents = await generate();
  return new Map(
    await Promise.all(documents.map(async ([path, text]) => [path, await formatPage(path, text)] as const)),
  );
}

async function generate(): Promise<readonly (readonly [path: string, text: string])[]> {
  return [
    ['docs/reference/commands.md', await printFlagReference(COMMANDS)],
    ['docs/reference/metrics.md', formatMetricReference(await createMetrics({ version: '' }).describe())],
    ['docs/reference/webhooks.md', formatWebhookReference(packageJson.version)],
    ['docs/reference/controllers.md', formatControllerReference()],
    ['docs/reference/alerts.md', formatAlertReference()],
    ['docs/reference/custom-resources.md', formatResourceReference()],
    [SETTINGS_PAGE, replaceSettingsTable(await readFile(SETTINGS_PAGE, 'utf8'))],
    ['docs/reference/library.md', formatLibraryReference()],
    ['docs/reference/charts.md', formatChartReference()],
    ['docs/reference/support.md', formatSupportReference()],
    [STATES_PAGE, formatStatesPage()],
    [POD_SECURITY_PAGE, formatPodSecurityPage()],
    ['.krew.yaml', formatKrewManifest()],
    [RECORDING, await recordCheckFix()],
    ['README.md', replaceBadges(await readFile('README.md', 'utf8'))],
    ...formatCheckPages(),
  ];
}

/** Replaces the line of badges. The badge of CI exists only if the repository does. */
function replaceBadges(text: string): string {
  const ci = `${REPOSITORY}/actions/workflows/ci.yml`;
  const badges = [
    ...(isReserved(REPOSITORY) ? [] : [`[![CI](${ci}/badge.svg?branch=main)](${ci})`]),
    `[![License: ${packageJson.license}](https://img.shields.io/badge/license-${packageJson.license.replaceAll('-', '--')}-blue)](LICENSE)`,
  ];
  return text.replace(/^\[!\[.*\]\(LICENSE\)$/m, badges.join(' '));
}

/** Formats a page as `npm run format` does. */
async function formatPage(path: string, text: string): Promise<string> {
  if (!path.endsWith('.md')) return text;
  const { code } = await format(path, text, {
    printWidth: 120,
    proseWrap: 'never',
    embeddedLanguageFormatting: 'off',
  });
  return code;
}
