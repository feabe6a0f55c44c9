/** The enforcement rollout as a diagram, with one circle for each step. */
import type { RolloutStep } from '../policy/rollout/index.ts';

const STATES: Readonly<Record<RolloutStep['state'], string>> = {
  done: 'done',
  current: 'current step',
  waiting: 'not reached',
};

export function RolloutDiagram({ steps }: { readonly steps: readonly RolloutStep[] }) {
  return (
    <ol class="diagram">
      {steps.map(({ name, state, detail }, index) => (
        <li class={state} aria-current={state === 'current' ? 'step' : undefined}>
          <span class="symbol" aria-hidden="true">
            {state === 'done' ? '✓' : index + 1}
          </span>
          <strong>
            {name}
            <span class="hidden">, {STATES[state]}</span>
          </strong>
          <span class="detail">{detail}</span>
        </li>
      ))}
    </ol>
  );
}
