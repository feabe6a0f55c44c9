/** The rollout of enforcement as a diagram: one circle for each step, connected in order. */
import type { RolloutStep } from './report-data.ts';

const WIDTH = 160;
const HEIGHT = 84;

const STATES: Readonly<Record<RolloutStep['state'], string>> = {
  done: 'done',
  current: 'current step',
  waiting: 'not reached',
};

export function RolloutDiagram({ steps }: { readonly steps: readonly RolloutStep[] }) {
  const text = steps.map(({ name, state, detail }) => `${name}: ${STATES[state]}, ${detail}`).join('; ');
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Diagram of the rollout">
      <svg
        class="diagram"
        viewBox={`0 0 ${WIDTH * steps.length} ${HEIGHT}`}
        width={WIDTH * steps.length}
        height={HEIGHT}
        role="img"
        aria-label={text}
      >
        {steps.slice(1).map(({ state }, index) => (
          <line
            class={state === 'waiting' ? 'waiting' : 'done'}
            x1={WIDTH * (index + 0.5) + 18}
            x2={WIDTH * (index + 1.5) - 18}
            y1={20}
            y2={20}
          />
        ))}
        {steps.map(({ name, state, detail }, index) => (
          <g class={state} transform={`translate(${WIDTH * (index + 0.5)} 20)`}>
            <circle r={14} />
            {state === 'done' ? (
              <path class="symbol" d="M-5 0l4 4 7-8" />
            ) : (
              <text class="symbol" y={5}>
                {index + 1}
              </text>
            )}
            <text class="name" y={36}>
              {name}
            </text>
            <text class="detail" y={54}>
              {detail}
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}
