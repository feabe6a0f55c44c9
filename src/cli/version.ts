import packageJson from '../../package.json' with { type: 'json' };
import { PROGRAM } from './command.ts';

/** The version of this program, without a leading `v`. */
export const VERSION = packageJson.version;

export function printVersion(): string {
  return `${PROGRAM} v${VERSION}\n`;
}
