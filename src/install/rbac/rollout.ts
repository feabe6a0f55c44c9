import { INSTALLATION } from '../../kube/installation.ts';
import { LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER } from '../../kube/label-sync.ts';
import { ROLLOUT_MANAGER } from '../../policy/rollout/enforcement.ts';
import type { ManifestSettings } from '../settings.ts';
import type { Manifest } from '../types.ts';
import { clusterRole, role } from './roles.ts';
import type { Rule } from './rule.ts';
import {
  DRY_RUN_RULES,
  LABEL_SYNCER_RULES,
  OBSERVER_RULES,
  PUBLISHED_RULES,
  PUBLISHING_RULES,
  READINESS_RULES,
  ROLLOUT_RULES,
  RUN_LEVEL_ZERO_RULES,
} from './rollout-rules.ts';

/** What a controller of the rollout may do, and when that is granted. */
export interface RolloutPart {
  /** Of its roles. */
  readonly name: string;
  /** As in `--controllers`. */
  readonly controller: string;
  /** Labels that follow from SCCs are left to whoever admits by SCCs. */
  readonly needs: 'nothing' | 'SCCs' | 'dry runs';
  readonly clusterRules: readonly Rule[];
  /** In the namespace of the installation. */
  readonly rules: readonly Rule[];
}

const { name } = INSTALLATION;

/** The controllers, each with a role that can be left out. */
export const ROLLOUT_PARTS: readonly RolloutPart[] = [
  {
    name: `${name}-config-observer`,
    controller: 'pod-security-config-observer',
    needs: 'nothing',
    clusterRules: OBSERVER_RULES,
    rules: PUBLISHING_RULES,
  },
  {
    name: `${name}-readiness`,
    controller: ROLLOUT_MANAGER,
    needs: 'nothing',
    clusterRules: READINESS_RULES,
    rules: [],
  },
  {
    name: `${name}-readiness-dry-run`,
    controller: ROLLOUT_MANAGER,
    needs: 'dry runs',
    clusterRules: DRY_RUN_RULES,
    rules: [],
  },
  {
    name: `${name}-label-syncer`,
    controller: LABEL_SYNC_MANAGER,
    needs: 'SCCs',
    clusterRules: LABEL_SYNCER_RULES,
    rules: [],
  },
  {
    name: `${name}-run-level-zero-labeller`,
    controller: RUN_LEVEL_ZERO_MANAGER,
    needs: 'SCCs',
    clusterRules: RUN_LEVEL_ZERO_RULES,
    rules: [],
  },
];

/** The roles for what all replicas follow. */
export const ROLLOUT_ROLE = `${name}-rollout`;

/** What the replicas may do for the rollout: for each controller roles of its own. */
export function rolloutRoles(settings: ManifestSettings): readonly Manifest[] {
  const { namespace, rollout } = settings;
  if (rollout === 'Disabled') return [];
  return [
    ...role(ROLLOUT_ROLE, PUBLISHED_RULES, namespace),
    ...clusterRole(ROLLOUT_ROLE, ROLLOUT_RULES, namespace),
    ...ROLLOUT_PARTS.filter((part) => isGranted(part, settings)).flatMap((part) => [
      ...(part.rules.length === 0 ? [] : role(part.name, part.rules, namespace)),
      ...clusterRole(part.name, part.clusterRules, namespace),
    ]),
  ];
}

function isGranted({ controller, needs }: RolloutPart, settings: ManifestSettings): boolean {
  if (settings.withoutControllers.includes(controller)) return false;
  if (needs === 'SCCs') return settings.sccMode !== 'off';
  return needs === 'nothing' || settings.evaluator === 'DryRun';
}
