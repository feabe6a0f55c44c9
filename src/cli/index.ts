import type { Command } from './command.ts';
import { check } from './commands/check.ts';
import { sccPlan } from './commands/scc-plan.ts';
import { serve } from './commands/serve.ts';
import { version } from './commands/version.ts';

/** All commands, in the order of the help. */
export const commands: readonly Command[] = [serve, check, sccPlan, version];
