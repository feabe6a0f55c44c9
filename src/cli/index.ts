import type { Command } from './command.ts';
import { check } from './commands/check.ts';
import { version } from './commands/version.ts';

/** All commands, in the order of the help. */
export const commands: readonly Command[] = [check, version];
