import type { Command } from './command.ts';
import { auditUserNamespacesCommand } from './commands/audit-user-namespaces.ts';
import { breakGlass } from './commands/break-glass.ts';
import { check } from './commands/check.ts';
import { doctor } from './commands/doctor.ts';
import { explain } from './commands/explain.ts';
import { install } from './commands/install.ts';
import { rolloutPlan } from './commands/rollout-plan.ts';
import { rolloutSimulate } from './commands/rollout-simulate.ts';
import { rolloutStatus } from './commands/rollout-status.ts';
import { sccPlan } from './commands/scc-plan.ts';
import { sccPods } from './commands/scc-pods.ts';
import { sccReview } from './commands/scc-review.ts';
import { serve } from './commands/serve.ts';
import { uninstallCommand } from './commands/uninstall.ts';
import { version } from './commands/version.ts';
import { whoCan } from './commands/who-can.ts';

/** All commands, in the order of the help. */
export const commands: readonly Command[] = [
  serve,
  check,
  explain,
  sccPlan,
  sccPods,
  sccReview,
  whoCan,
  auditUserNamespacesCommand,
  rolloutStatus,
  rolloutPlan,
  rolloutSimulate,
  install,
  doctor,
  breakGlass,
  uninstallCommand,
  version,
];
