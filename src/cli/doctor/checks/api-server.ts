import { MINIMUM_MINOR } from '../../../install/index.ts';
import { evaluateFact, ok, problem, unknown, type Check } from '../facts.ts';

const OBJECT = 'API server';

/** The API server supports match conditions. */
export const apiServer: Check = {
  name: 'api-server',
  evaluate: ({ server }) =>
    evaluateFact(server, OBJECT, ({ version }) => {
      const [, major, minor] = /^v?([1-9]\d*)\.(\d+)/.exec(version) ?? [];
      if (major === undefined) return [unknown(OBJECT, `cannot parse version ${version}`)];
      if (Number(major) > 1 || Number(minor) >= MINIMUM_MINOR) {
        return [ok(OBJECT, `Kubernetes ${version} is supported`)];
      }
      return [
        problem(OBJECT, `Kubernetes ${version} is older than v1.${MINIMUM_MINOR}`, {
          impact:
            'match conditions are not supported: break-glass has no effect, and the webhooks receive more requests',
          fix: 'upgrade the cluster',
        }),
      ];
    }),
};
